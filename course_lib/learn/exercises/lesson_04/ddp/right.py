"""04.ddp: what is expected on each rank, as a report of the step's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_04.ddp.cases import (
    SITUATIONS,
    STEPS,
    TWO_MODELS,
    bucket_sizes,
    complete_before,
    oracle,
)
from course_lib.learn.exercises.lesson_04.ddp.reports import LOOKED_AT, ValuesReport
from course_lib.learn.exercises.lesson_04.ddp.trial import GIVEN, NOTHING_TO_TRAIN
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["right"]

_ROOM, _PEAK = 1.2, 1.5  # in sizes of the gradients: once, a bucket of eight, and what gloo's thread lets go late


def right(label: str, report: type[ValuesReport]) -> Callable[[int, int], ValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    one = "three layers" if label == GIVEN else label
    return lambda rank, world_size: report.of(_facts(one, rank, world_size))


def _facts(label: str, rank: int, world_size: int) -> dict[str, Any]:
    facts: dict[str, Any] = dict.fromkeys(LOOKED_AT, NOT_DEMANDED) | {"gradients": []}
    if label == NOTHING_TO_TRAIN:
        return facts
    situation, one = SITUATIONS[label], oracle(label, world_size)
    facts |= {
        "begin": one.begin,
        "gradients": [
            {name: gradient if name in used else None for name, gradient in step.items()}
            for step, used in zip(one.gradients, one.used, strict=True)
        ],
        "weights": one.end,
        "own": one.own[rank],
        "quiet": 0,
    }
    if label != TWO_MODELS:
        facts["names"] = list(situation.model(0).state_dict())
    if situation.checks_buffers:
        facts["buffers"] = one.buffers
    if world_size == 1:
        return facts
    if situation.is_counted:
        facts |= {
            "messages": [bucket_sizes(label)] * STEPS,
            "others": "none",
            "views": [len(bucket_sizes(label))] * STEPS,
        }
    if situation.is_timed:
        facts |= {"early": [complete_before(label)] * STEPS, "waits": 0}
    if situation.is_weighed:
        facts |= {"stays": _ROOM, "peak": _PEAK, "growth": NOTHING}
    return facts
