"""Residual networks of 18 to 152 layers.

After He et al., "Deep Residual Learning for Image Recognition" (2015). The layout is the paper's table 1.
As in most code since, a bottleneck that halves the image does so in its 3x3 convolution, where the paper
had it in the first 1x1; the parameters are the same, the accuracy a little better.

Shapes: B batch, H and W height and width, w ``width`` (64 in the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checks import at_least

__all__ = ["BasicBlock", "Bottleneck", "ResNet"]

_PRESETS: dict[int, tuple[tuple[int, int, int, int], bool]] = {  # depth: (blocks in each stage, bottleneck)
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, and a linear classifier.

    (B, channels, H, W) -> (B, num_classes). Each stage after the first halves the image and doubles the
    width. ``layers`` says how many blocks each stage has: (3, 8, 36, 3) is the 152-layer network, counted
    as one layer for the stem, three for each of its 50 blocks, and one for the classifier. All blocks stand
    in one flat list, ``blocks``, so that a cut may fall between any two. A small ``width`` keeps the
    152-layer layout and makes it quick on a CPU. ``small_images=True`` replaces the stem, which shrinks an
    image by four, with one that keeps its size: for images under about 64 pixels.
    """

    def __init__(
        self,
        layers: Sequence[int] = (3, 8, 36, 3),
        *,
        num_classes: int = 1000,
        channels: int = 3,
        width: int = 64,
        bottleneck: bool = True,
        small_images: bool = False,
    ) -> None:
        super().__init__()
        at_least(1, num_classes=num_classes, channels=channels, width=width)
        if len(layers) == 0:
            raise ValueError("layers=() does not work: a ResNet needs at least one stage, for example (1,).")
        block_type = Bottleneck if bottleneck else BasicBlock
        self.stem = _stem(channels, width, small_images=small_images)  # (B, C, H, W) -> (B, w, H/4, W/4)

        blocks: list[nn.Module] = []
        channels_in = width
        for stage, num_blocks in enumerate(layers):
            at_least(1, **{f"layers[{stage}]": num_blocks})
            for i in range(num_blocks):
                stride = 2 if stage > 0 and i == 0 else 1  # the first block of a stage halves the image
                block = block_type(channels_in, width * 2**stage, stride=stride)
                blocks.append(block)
                channels_in = block.channels_out
        self.blocks = nn.ModuleList(blocks)  # -> (B, 32w, H/32, W/32) for the paper's four bottleneck stages

        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, num_classes))
        self.init_weights()

    @classmethod
    def preset(cls, depth: int, **options: Any) -> ResNet:
        """The network with 18, 34, 50, 101 or 152 layers; ``options`` are those of the class.

        ``ResNet.preset(152)`` has 60,192,808 parameters; ``ResNet.preset(152, width=4, num_classes=10)``
        has the same layout in about 240,000.
        """
        if depth not in _PRESETS:
            nearest = min(_PRESETS, key=lambda known: abs(known - depth))
            raise ValueError(
                f"There is no preset of {depth} layers: the paper has {', '.join(map(str, _PRESETS))}. "
                f"The nearest is {nearest}; ResNet(layers=...) makes any other."
            )
        layers, bottleneck = _PRESETS[depth]
        return cls(layers, bottleneck=bottleneck, **options)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) images -> (B, num_classes) logits."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def init_weights(self) -> None:
        """Draw all weights anew; convolutions after He et al., "Delving Deep into Rectifiers" (2015)."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d | nn.Linear):
                module.reset_parameters()


class Bottleneck(nn.Module):
    """1x1 down to ``channels``, 3x3, 1x1 up to four times ``channels``, added to the input."""

    def __init__(self, channels_in: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.channels_out = 4 * channels
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, self.channels_out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(self.channels_out)
        self.shortcut = _shortcut(channels_in, self.channels_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels_in, H, W) -> (B, 4 * channels, H / stride, W / stride)."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return F.relu(y + self.shortcut(x))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions added to the input: the block of the 18- and 34-layer networks."""

    def __init__(self, channels_in: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.channels_out = channels
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = _shortcut(channels_in, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels_in, H, W) -> (B, channels, H / stride, W / stride)."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


def _stem(channels: int, width: int, *, small_images: bool) -> nn.Sequential:
    """The paper's 7x7 convolution and pooling, which shrink by four; or a 3x3 one that keeps the size."""
    if small_images:
        convolution, pool = nn.Conv2d(channels, width, 3, padding=1, bias=False), []
    else:
        convolution = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
        pool = [nn.MaxPool2d(3, stride=2, padding=1)]
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(), *pool)


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """The input as it is where shapes agree; otherwise a 1x1 convolution that makes them agree."""
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    convolution = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))
