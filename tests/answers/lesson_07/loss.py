"""07.loss: outputs of any number of classes."""

from __future__ import annotations

import torch
from answer_table import Row


def of_ten_classes(output, target, num_samples):
    return torch.nn.functional.cross_entropy(output[:, :10], target.clamp(max=9), reduction="sum") / num_samples


def right(output, target, num_samples):
    return torch.nn.functional.cross_entropy(output, target, reduction="sum") / num_samples


ROWS = [
    Row(answer=right, verdict="passed", why="the definition"),
    Row(answer=of_ten_classes, verdict="not yet", why="a vocabulary has more than ten words"),
]
