"""09.assemble: what is looked at on each rank after three steps, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.base.text import counted
from course_lib.learn.exercises.lesson_09.assemble.cases import (
    ROOM,
    ROOM_SENT,
    AssembleLayout,
    losses,
    most_kept,
    most_sent,
)
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.report import NOT_DEMANDED, RankReport, fact

__all__ = ["A_NUMBER", "TWICE", "AssembleReport", "right"]

A_NUMBER, TWICE = "a number", "twice as large"
_CLOSE = close_to(1e-9, 1e-11)


def _no_number(want: str, have: str, _: str) -> str:
    if have == "None":
        return "`step` gave nothing (`None`); every rank returns the mean loss"
    return f"a number is to come from `step`, and what came is {have}"


def _sends_more(want: dict[str, float], have: dict[str, float]) -> str:
    """Along the first axis with too many bytes."""
    over = ((axis, have[axis] / (most / ROOM_SENT)) for axis, most in want.items() if have[axis] > most)
    return next((f"{times:.1f} times as many bytes along {axis}" for axis, times in over), "")


@dataclass(frozen=True, kw_only=True)
class AssembleReport(RankReport):
    """Losses of three steps, and what a rank kept, sent and left. Of ``messages`` no fewer than expected is right."""

    asked_for = "the facts of three steps"
    gave: str = fact(_no_number, right=A_NUMBER)
    first: Any = fact("the loss of the first step: {difference}", by=_CLOSE)
    later: Any = fact("the loss of the first step is right; of later ones, {difference}", by=_CLOSE)
    kept_numbers: Any = fact(
        lambda want, have, _: (
            f"the losses are right, but this rank's `parameters()` are {have:,} numbers, where {want / ROOM:,.0f} are "
            "enough"
        ),
        by=lambda want, have: "more" if have > want else "",
    )
    sent: Any = fact(
        "the losses are right, but in a step this rank sent {difference} as the samples of its share need",
        by=_sends_more,
    )
    messages: Any = fact(
        "the losses are right, but in a step this rank hands on {got} micro-batches, where {expected} are needed",
        by=lambda want, have: "fewer" if have < want else "",
    )
    added: Any = fact(
        "the losses are right, but when `step` is called twice with the same batch, without `zero_grad` in between, "
        "the gradients are {got}. `step` has to add its gradients to those that are there",
        right=TWICE,
    )
    groups: Any = fact(
        lambda want, have, _: (
            f"the losses are right, but each run leaves {counted(have, 'process group')} more that `step` made"
        ),
        right=0,
    )

    @classmethod
    def without_a_loss(cls, gave: str) -> AssembleReport:
        """Of a rank whose ``step`` gave something else; nothing more is looked at there."""
        others = ("first", "later", "kept_numbers", "sent", "messages")
        return cls(gave=gave, **dict.fromkeys(others, NOT_DEMANDED))


def right(layout: AssembleLayout) -> Callable[[int, int], AssembleReport]:
    """What an answer is to report on this mesh."""

    def expected(rank: int, world_size: int) -> AssembleReport:
        first, *later = losses(layout)
        num_stages = layout.mesh.size("pp")
        return AssembleReport(
            first=first,
            later=later,
            kept_numbers=most_kept(layout),
            sent=most_sent(layout),
            messages=2 * num_stages if num_stages > 1 else 0,
        )

    return expected
