"""01.accumulate: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.learn.exercises.lesson_01.accumulate import _even, _stepper, _whole


def _clears_before_the_step(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: list) -> None:
    for x, y in pieces:
        F.cross_entropy(model(x), y).backward()
    optimizer.zero_grad()
    optimizer.step()


EXERCISE = "01.accumulate"
EXAMPLES: dict[str, Any] = {
    "sum-of-means": _stepper(weight=_whole),
    "mean-of-means": _stepper(weight=_even),
    "no-step": lambda model, optimizer, pieces: optimizer.zero_grad(),
    "step-without-gradients": _clears_before_the_step,
    "cleared-inside": _stepper(zero_inside=True),
    "steps-inside": _stepper(step_inside=True),
}
