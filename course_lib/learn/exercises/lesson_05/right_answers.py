"""Lesson 05: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_05 import right_clip

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "05.clip": right_clip.ANSWERS,
}

_CPU = "On ranks that compute on the CPU it is there already; where ranks have GPUs, the check refuses it."
_EPSILON = (
    "It is there to divide by no zero; a tensor divides by zero as well, and the clamp makes 1 of what comes."
)

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "05.clip": {
        "2: `torch.zeros((), device=me.device)` -> `torch.zeros(())`": _CPU,
        "5: `norm + 1e-06` -> `norm`": _EPSILON,
        "5: `1e-06` -> `2e-06`": _EPSILON,
        "5: `norm + 1e-06` -> `norm - 1e-06`": "Only a norm between zero and a millionth would tell.",
        "clip: gradients switched off": "It runs under `torch.no_grad()`, which puts the switch back.",
    },
}
