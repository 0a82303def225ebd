"""Images of any size, made from a seed: coloured stripes whose direction is the class.

Nothing is stored. Image ``i`` is computed when it is asked for, from the seed and ``i`` alone, so every
worker and every rank sees the same one, and a data set of a million large images takes no disk.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least

__all__ = ["GeneratedImages", "generated_images"]

_STRIPES = 1.6  # strength of the stripes at full colour: their deviation is about 0.8
_GRAIN = 0.5  # deviation of the grain over them


class GeneratedImages(Dataset[tuple[Tensor, int]]):
    """The data set that :func:`generated_images` returns; its settings are its attributes."""

    def __init__(self, num_images: Int64, size: Int64, *, num_classes: Int64, channels: Int64, seed: Int64) -> None:
        self.num_images = num_images
        self.size = size
        self.num_classes = num_classes
        self.channels = channels
        self.seed = seed

    def __len__(self) -> int:
        return self.num_images

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not -self.num_images <= index < self.num_images:
            raise IndexError(f"There is no image {index}: they are numbered 0 to {self.num_images - 1}.")
        random = np.random.default_rng((self.seed, index % self.num_images))
        label = int(random.integers(self.num_classes))
        num_stripes = random.uniform(0.1, 0.2) * min(self.size, 40)  # each at least 5 pixels wide
        phase = random.uniform(0.0, 2.0 * math.pi)
        colour = random.uniform(0.4, 1.0, self.channels) * random.choice((-1.0, 1.0), self.channels)

        angle = math.pi * label / self.num_classes
        wave = np.linspace(0.0, 2.0 * math.pi * num_stripes, self.size, dtype=np.float32)  # from edge to edge
        across, down = math.cos(angle) * wave[None, :], math.sin(angle) * wave[:, None]
        stripes = np.sin(across + down + np.float32(phase))  # (H, W)
        grain = random.standard_normal((self.channels, self.size, self.size), dtype=np.float32)
        strength = (_STRIPES * colour).astype(np.float32)[:, None, None]
        return torch.from_numpy(strength * stripes + _GRAIN * grain), label  # (C, H, W)


@checked
def generated_images(
    num_images: Int64, size: Int64 = 32, *, num_classes: Int64 = 10, channels: Int64 = 3, seed: Int64 = 0
) -> GeneratedImages:
    """Make images that a model can learn to tell apart: item i is ``(image, label)``.

    ``image`` is (channels, size, size) float32, with mean 0 and a deviation near 1. The label, 0 up to
    ``num_classes``, turns the stripes: those of class k are turned by k / num_classes of half a turn. Their
    number, place and colour, and the grain over them, differ from image to image and say nothing of the
    class.

    Ten classes are told apart easily from 16 pixels on. A thousand make a realistic load, but they lie a
    fifth of a degree apart: do not expect a model to learn them. For a test set, take another seed.
    """
    settings = {"num_images": num_images, "size": size, "num_classes": num_classes, "channels": channels}
    at_least(1, **settings)
    at_least(0, seed=seed)
    return GeneratedImages(num_images, size, num_classes=num_classes, channels=channels, seed=seed)
