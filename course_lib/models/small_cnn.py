"""A convolutional network small enough for a laptop: about 93,000 parameters for the 8x8 digits.

Shapes: B batch, C channels of the input, H and W height and width, w ``width``.
"""

from __future__ import annotations

from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least

__all__ = ["SmallCNN"]


@checked
class SmallCNN(nn.Module):
    """Three 3x3 convolutions, an average over all positions, and a linear classifier.

    (B, channels, H, W) -> (B, num_classes). Any image size works, 1x1 upwards, because the average takes
    whatever height and width are left. ``batch_norm=False`` gives a network in which the images of a batch
    do not see each other, so that a batch may be cut without changing a value; its convolutions then carry
    a bias.
    """

    def __init__(
        self, num_classes: Int64 = 10, channels: Int64 = 1, width: Int64 = 32, *, batch_norm: bool = True
    ) -> None:
        super().__init__()
        at_least(1, num_classes=num_classes, channels=channels, width=width)
        self.stem = _conv(channels, width, stride=1, batch_norm=batch_norm)  # (B, C, H, W) -> (B, w, H, W)
        self.blocks = nn.ModuleList(
            [
                _conv(width, 2 * width, stride=2, batch_norm=batch_norm),  # -> (B, 2w, H/2, W/2)
                _conv(2 * width, 4 * width, stride=2, batch_norm=batch_norm),  # -> (B, 4w, H/4, W/4)
            ]
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),  # -> (B, 4w, 1, 1)
            nn.Flatten(),  # -> (B, 4w)
            nn.Linear(4 * width, num_classes),  # -> (B, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) images -> (B, num_classes) logits."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _conv(channels_in: int, channels_out: int, *, stride: int, batch_norm: bool) -> nn.Sequential:
    """3x3 convolution, BatchNorm if asked for, ReLU. A stride of 2 halves height and width, rounding up."""
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=not batch_norm)
    norm = [nn.BatchNorm2d(channels_out)] if batch_norm else []
    return nn.Sequential(convolution, *norm, nn.ReLU())
