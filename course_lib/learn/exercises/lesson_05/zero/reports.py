"""05.zero: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_05.zero.cases import SITUATIONS, mean, one_process
from course_lib.learn.judging.compare import difference, no_more
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, RankReport, fact

__all__ = ["AN_OPTIMIZER", "ZeroBytesReport", "ZeroMemoryReport", "ZeroValuesReport", "are_alike", "right"]

AN_OPTIMIZER = "an object with `step` and `zero_grad`"
_MOST_PARTS = 5  # of its own part: weights, their gradient, two states, and one more for whoever needs it
_SMALL = 64  # numbers: counts of steps, learning rates and the like
_NUM_CALLS = 2


def are_alike(want: list[Tensor], have: list[Tensor]) -> str:
    """The first difference between the parameters of one step, each as near as its dtype allows."""
    for number, (a, b) in enumerate(zip(want, have, strict=True), start=1):
        eps = torch.finfo(a.dtype).eps
        if found := difference(a, b, relative=256 * eps, absolute=256 * eps if eps > 1e-9 else 1e-11):
            return f"parameter {number} of {len(want)}, of shape {tuple(a.shape)}: {found}"
    return ""


def _steps_alike(want: Any, have: Any) -> str:
    for step, (a, b) in enumerate(zip(want, have, strict=True), start=1):
        if found := are_alike(a, b):
            return f"after step {step}, {found}"
    return ""


@dataclass(frozen=True, kw_only=True)
class ZeroValuesReport(RankReport):
    """Step 1 and step 4: the values."""

    asked_for = "the facts of a few steps"
    made: str = fact(
        "the constructor is to give an object with `step` and `zero_grad`; it gave {got}", right=AN_OPTIMIZER
    )
    weights: Any = fact("{difference}", by=_steps_alike)
    kept: str = fact("something else has changed of what your code was given: {got}", right=NOTHING)
    operations: tuple[str, ...] = ()  # of the last step; for recognisers
    num_states: int = 0  # in states of optimizers; for recognisers


@dataclass(frozen=True, kw_only=True)
class ZeroBytesReport(ZeroValuesReport):
    """Step 2: what a step sends, in bytes of all gradients, and by how many calls."""

    sent: Any = fact(
        lambda want, have, _: (
            f"the weights are right. In one step this rank sends {have:.2f} times the bytes of the "
            f"gradients, counted as rings send them. A reduce-scatter and an all-gather send {want:.2f} at most"
        ),
        by=no_more,
    )
    num_calls: Any = fact(
        "the weights and the bytes are right. One step makes {got} calls, where {expected} will do", by=no_more
    )


@dataclass(frozen=True, kw_only=True)
class ZeroMemoryReport(ZeroBytesReport):
    """Step 3: what lies in memory between two steps, in sizes of a rank's part."""

    parts: Any = fact(
        lambda want, have, _: (
            "weights and bytes are right. Between two steps this rank keeps beside the model as many "
            f"numbers as {have:.1f} of its parts have. The part's weights, their gradient and two states are 4"
        ),
        by=no_more,
    )
    growth: Any = fact(
        "weights and bytes are right. After two more steps this rank keeps {got} numbers more", by=no_more
    )


@lru_cache(maxsize=64)
def _weights(label: str, world_size: int) -> Any:
    return one_process(label, lambda step, model: mean(label, world_size, step, model))


def right(label: str, report: type[ZeroValuesReport]) -> Callable[[int, int], ZeroValuesReport]:
    """``expected(rank, world_size)`` of a case."""

    def expected(rank: int, world_size: int) -> ZeroValuesReport:
        situation = SITUATIONS[label]
        facts: dict[str, Any] = {"weights": _weights(label, world_size)}
        facts |= dict.fromkeys(("sent", "num_calls", "parts", "growth"), NOT_DEMANDED)
        if situation.is_counted:
            facts["sent"] = (situation.sent_bytes(world_size) + 64) / (8 * situation.num_all)
            facts["num_calls"] = _NUM_CALLS * len(situation.dtypes)
        if situation.is_weighed:
            num_own = situation.num_own(world_size)
            facts |= {
                "sent": 2 * (world_size - 1) * num_own / situation.num_all + 64 / (8 * situation.num_all),
                "num_calls": _NUM_CALLS,
                "parts": _MOST_PARTS + _SMALL / num_own,
                "growth": _SMALL,
            }
        return report.of(facts)

    return expected
