"""Lesson 04: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_04 import (
    right_accumulate,
    right_drift,
    right_gradients,
    right_overlap,
    right_sampler,
)

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "04.gradients": right_gradients.ANSWERS,
    "04.overlap": right_overlap.ANSWERS,
    "04.sampler": right_sampler.ANSWERS,
    "04.accumulate": right_accumulate.ANSWERS,
    "04.drift": right_drift.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "04.gradients": {
        "5: `dist.all_reduce(parameter.grad)` after `parameter.grad /= me.world_size`": (
            "The sum of the quotients is the quotient of the sum, to rounding."
        ),
        "6: `parameter.grad /= me.world_size` -> a new name for a new value": (
            "The optimizer reads `parameter.grad`; a new tensor there is as good as the old one."
        ),
    },
    "04.sampler": {
        "2: `order = torch.randperm(num_items, generator=generator).tolist()` after "
        "`share = -(-num_items // world_size)`": "The order and the share do not depend on each other.",
    },
}
