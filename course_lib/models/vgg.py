"""Convolutions first, large linear layers last: the networks that made model parallelism a question of where to cut.

After Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2014), table 1.
Nearly all of the arithmetic is in the convolutions and nearly all parameters in two linear layers. The paper's dropout
between linear layers is left out, so that a run on any number of ranks draws the same numbers.

Shapes: B batch, C channels of the input, S height and width of an image, w ``width`` (64 in the paper).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least, nearest_multiple

__all__ = ["VGG"]

_WIDEST = 8  # times ``width``: the paper's 512 channels


@checked
class VGG(nn.Module):
    """Stages of 3x3 convolutions, each of which ends by halving the image; then three linear layers.

    (B, channels, S, S) -> (B, num_classes). ``convolutions`` says how many each stage has: (2, 2, 3, 3, 3) is the
    paper's network of 16 layers, with 138,357,544 parameters. Each stage doubles the width, up to eight times the
    first. Every convolution and every linear layer but the last is a piece of its own, with its ReLU, so that a cut may
    fall between any two. A small ``width`` and ``hidden`` keep the layout and make it quick on a CPU.
    """

    def __init__(
        self,
        convolutions: Sequence[int] = (2, 2, 3, 3, 3),
        *,
        num_classes: Int64 = 1000,
        channels: Int64 = 3,
        width: Int64 = 64,
        hidden: Int64 = 4096,
        image_size: Int64 = 224,
    ) -> None:
        super().__init__()
        at_least(1, num_classes=num_classes, channels=channels, width=width, hidden=hidden, image_size=image_size)
        if len(convolutions) == 0:
            raise ValueError("convolutions=() does not work: a VGG needs at least one stage, for example (2, 2).")
        at_least(1, **{f"convolutions[{stage}]": count for stage, count in enumerate(convolutions)})
        halving = 2 ** len(convolutions)
        if image_size % halving:
            raise ValueError(
                f"image_size={image_size} is not a multiple of {halving}: each of {len(convolutions)} stages halves "
                f"the image. The nearest that works is {nearest_multiple(image_size, halving)}."
            )
        layers, channels_in = [], channels
        for stage, count in enumerate(convolutions):
            channels_out = width * min(2**stage, _WIDEST)
            for i in range(count):
                layers.append(_convolution(channels_in, channels_out, halves=i == count - 1))
                channels_in = channels_out
        numbers = channels_in * (image_size // halving) ** 2  # of an image, after the last stage
        self.stem = layers[0]  # (B, C, S, S) -> (B, w, S, S)
        self.blocks = nn.ModuleList(
            [
                *layers[1:],
                nn.Sequential(nn.Flatten(), nn.Linear(numbers, hidden), nn.ReLU()),  # -> (B, hidden)
                nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU()),
            ]
        )
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, S, S) images -> (B, num_classes) logits."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _convolution(channels_in: int, channels_out: int, *, halves: bool) -> nn.Sequential:
    """3x3 convolution, ReLU, and at the end of a stage a pooling that halves height and width."""
    pool = [nn.MaxPool2d(2)] if halves else []
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU(), *pool)
