"""05.optimizer: what is looked at on each rank after a few steps, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from course_lib.learn.exercises.lesson_05.optimizer.cases import (
    CLOSE,
    MOST_PARTS,
    SMALL,
    STEPS,
    mean,
    num_all,
    num_own,
    start_of_another,
    steps_of,
)
from course_lib.learn.judging.compare import no_more
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, RankReport, fact

__all__ = ["AN_OPTIMIZER", "OptimizerReport", "right"]

AN_OPTIMIZER = "an object with a `step`"


def _steps_alike(want: Any, have: Any) -> str:
    steps = enumerate(zip(want, have, strict=True), start=1)
    return next((f"after step {step}: {found}" for step, (a, b) in steps if (found := CLOSE(a, b))), "")


@dataclass(frozen=True, kw_only=True)
class OptimizerReport(RankReport):
    """What a rank did in a few steps. Of what was sent and kept, no more than is expected is right."""

    asked_for = "the facts of a few steps"
    made: str = fact(
        "`ShardedAdamW(me, parameters, lr)` is to give an object with a `step`; what came is {got}", right=AN_OPTIMIZER
    )
    kept: str = fact("something has changed of what your code was given, beside the weights: {got}", right=NOTHING)
    weights: Any = fact("the weights {difference}", by=_steps_alike)  # after each step, (P,)
    second: Any = fact(
        "the weights of two models, each with an object of its own, after one more step of each: {difference}", by=CLOSE
    )
    sent: Any = fact(
        lambda want, have, _: (
            f"the weights are right, and in one step this rank sends {have:.2f} times the bytes of the gradients, "
            f"counted as rings send them. A reduce-scatter and an all-gather send {want:.2f} at most, padding included"
        ),
        by=no_more,
    )
    parts: Any = fact(
        lambda want, have, _: (
            "the weights are right, and between two steps this rank keeps beside the model as many numbers as "
            f"{have:.1f} of its parts have. The part's weights, their gradient and AdamW's two states are 4"
        ),
        by=no_more,
    )
    growth: Any = fact("the weights are right, and after two more steps this rank keeps {got} numbers more", by=no_more)
    operations: tuple[str, ...] = ()  # of the last step; for recognisers
    num_states: int = 0  # numbers in states of optimizers; for recognisers

    @classmethod
    def unfinished(cls, **facts: Any) -> OptimizerReport:
        """Of a rank that was stopped before its last step: what is not given here has not been looked at."""
        return cls(**{**dict.fromkeys(("weights", "second", "sent", "parts", "growth"), NOT_DEMANDED), **facts})


@lru_cache(maxsize=32)
def _expected(kind: str, world_size: int) -> OptimizerReport:
    *after, one_more = steps_of(kind, lambda step: mean(kind, world_size, step), num_steps=STEPS + 1)
    another = steps_of(kind, lambda step: mean(kind, world_size, STEPS + 1), num_steps=1, begin=start_of_another(kind))
    most = 2 * (world_size - 1) * num_own(kind, world_size) / num_all(kind)
    return OptimizerReport(
        weights=after,
        second=torch.cat([one_more, *another]),
        sent=most + 64 / (8 * num_all(kind)),  # room for a flag or two
        parts=MOST_PARTS + SMALL / num_own(kind, world_size),
        growth=0,
    )


def right(kind: str) -> Callable[[int, int], OptimizerReport]:
    """What an answer is to report on a rank of so many."""
    return lambda rank, world_size: _expected(kind, world_size)
