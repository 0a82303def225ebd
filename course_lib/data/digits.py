"""Handwritten digits: 1,797 grey images of 8x8 pixels, shipped inside scikit-learn.

They come from the UCI "Optical Recognition of Handwritten Digits" data set (Alpaydin and Kaynak, 1998).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from course_lib.base.checked import checked

__all__ = ["Digits", "digits"]


class Digits(NamedTuple):
    """The two parts of the digits; each item is an image (1, 8, 8) float32 and its label, a 0-d int64."""

    train: TensorDataset
    test: TensorDataset


@checked
def digits(*, test_share: float = 0.2, seed: int = 0) -> Digits:
    """Load the digits, cut into a training and a test part by ``seed``: ``train, test = digits()``.

    Pixels are scaled so that those of the training part have mean 0 and deviation 1. ``train.tensors``
    holds all images (N, 1, 8, 8) and labels (N,) at once. ``ValueError`` where ``test_share`` leaves a part
    empty; ``ModuleNotFoundError`` where scikit-learn is missing.
    """
    images, labels = _read()
    num_test = round(test_share * len(images)) if 0.0 < test_share < 1.0 else 0
    if not 0 < num_test < len(images):
        raise ValueError(
            f"test_share={test_share} leaves no digits in one of the two parts: it is a share between 0 "
            f"and 1, of {len(images)} digits. A usual value is 0.2."
        )
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    train, test = order[num_test:], order[:num_test]
    std, mean = torch.std_mean(images[train])  # the test part must not be looked at, not even for its mean
    images = (images - mean) / std
    return Digits(TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test]))


def _read() -> tuple[Tensor, Tensor]:
    """All digits as they were scanned: (1797, 1, 8, 8) float32 with values 0 to 16, and (1797,) int64.

    Importing scikit-learn takes most of a second, and every rank would pay it; reading its file takes a
    hundredth. Should a later version move the file, its own loader is asked instead.
    """
    sklearn = find_spec("sklearn")
    if sklearn is None or sklearn.origin is None:
        raise ModuleNotFoundError(
            "The digits are shipped inside scikit-learn, which is not installed here. "
            "Install it with: pip install scikit-learn"
        )
    file = Path(sklearn.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if file.is_file():
        table = np.loadtxt(file, delimiter=",")  # 64 pixels and the label in each row
        pixels, labels = table[:, :64], table[:, 64]
    else:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().reshape(-1, 1, 8, 8)
    return images, torch.from_numpy(labels).long()
