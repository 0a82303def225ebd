"""The trial of what is said about the size of a picture behind convolutions and poolings."""

from __future__ import annotations

import torch
from torch import nn

from course_lib.claims.court.evidence import Evidence, Ranks, tries

__all__: list[str] = []


def _features(width: int = 224, *, padding: int = 1, channels: int = 32) -> tuple[int, ...]:
    """What a classifier gets of a square image: (channels, height, width) after two convolutions, each with a pooling
    of 2 x 2, as in the article's network."""
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, channels, 3, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    with torch.no_grad():
        return tuple(layers(torch.zeros(1, 3, width, width)).shape[1:])


def _written(sizes: tuple[int, ...]) -> str:
    return "*".join(map(str, sizes))


@tries("E3")
def two_poolings_of_224_leave_56(ranks: Ranks) -> Evidence:
    """The article's two convolutions and poolings, and others: what reaches the classifier?"""
    as_written, wanted = _features(), (32, 56, 56)
    classifier = nn.Linear(32 * 56 * 56, 10)
    fits = torch.Size(as_written).numel() == classifier.in_features
    same = [width for width in range(220, 232) if _features(width) == as_written]
    return Evidence(
        "holds" if fits and as_written == wanted else "false",
        {
            "reaches the classifier": _written(as_written),
            "without padding of the convolutions": _written(_features(padding=0)),
            "with 64 channels": _written(_features(channels=64)),
            "images that give the same, pixels wide": f"{same[0]} to {same[-1]}" if same else "none",
        },
        because="convolutions of 3 x 3 with padding 1 keep the size, and each pooling halves it: 224, 112, 56. The "
        "number of devices does not matter: each device gets some of the images, and no image is cut",
        turns_if=f"the convolutions had no padding ({_written(_features(padding=0))}), the last one did not have 32 "
        f"channels, or images were not {same[0]} to {same[-1]} pixels wide"
        if same
        else "the poolings halved the size",
    )
