"""Residual networks of 18 to 152 layers, with torchvision's names: its weights fit as they are.

After He et al., "Deep Residual Learning for Image Recognition" (2015). Two things torchvision's own lacks: any
``width``, so that all of it runs on a laptop, and a stem for images under 64 pixels, which keeps their size.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ResNet"]

_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class ResNet(nn.Module):
    """(B, 3, H, W) images -> (B, num_classes) logits."""

    def __init__(self, layers: int, *, num_classes: int, width: int = 64, small_images: bool = False) -> None:
        super().__init__()
        if small_images:
            self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, stride=2, padding=1)
        self.channels = width  # of what the next block gets
        block, stages = (Bottleneck if layers >= 50 else BasicBlock), _STAGES[layers]
        self.layer1 = self._stage(block, width, stages[0], stride=1)
        self.layer2 = self._stage(block, 2 * width, stages[1], stride=2)
        self.layer3 = self._stage(block, 4 * width, stages[2], stride=2)
        self.layer4 = self._stage(block, 8 * width, stages[3], stride=2)
        self.fc = nn.Linear(self.channels, num_classes)
        for module in self.modules():  # He et al., "Delving Deep into Rectifiers" (2015)
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _stage(
        self, block: type[BasicBlock] | type[Bottleneck], channels: int, num_blocks: int, stride: int
    ) -> nn.Sequential:
        """Blocks of one width; the first of them halves the image where ``stride`` is 2."""
        blocks: list[nn.Module] = []
        for i in range(num_blocks):
            blocks.append(block(self.channels, channels, stride if i == 0 else 1))
            self.channels = channels * block.expansion
        return nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))  # (B, w, H/4, W/4); small images keep H and W
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # three halvings
        return self.fc(x.mean(dim=(2, 3)))  # (B, channels) -> (B, num_classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, added to the input: for 18 and 34 layers."""

    expansion = 1

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _downsample(channels_in, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels_in, H, W) -> (B, channels, H / stride, W / stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up to four times ``channels``, added to the input: for 50 layers and more."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.downsample = _downsample(channels_in, 4 * channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels_in, H, W) -> (B, 4 * channels, H / stride, W / stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


def _downsample(channels_in: int, channels_out: int, stride: int) -> nn.Module | None:
    """A 1x1 convolution where the input must change its shape to be added; None where it need not."""
    if stride == 1 and channels_in == channels_out:
        return None
    convolution = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))
