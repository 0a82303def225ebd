"""Does it matter in which order an answer is asked for the ranks? Each rank is a process that asks for itself alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.learn.judging.compare import difference, short

__all__ = ["DependsOnOrder", "asked_in_both_orders"]


@dataclass(frozen=True)
class DependsOnOrder:
    """In the place of a result: what came for this rank when it was asked after others, and when before them."""

    after: Any
    before: Any

    def __str__(self) -> str:
        return (
            f"{short(self.after)} came when the ranks before it had been asked, and {short(self.before)} when they had "
            "not. On ranks each process asks for itself alone: nothing that another call has left is there"
        )


def asked_in_both_orders(answer: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answer to each call, in order; then all are asked from the last to the first, and should give the same."""
    in_order = [answer(*args) for args in calls]
    backwards = [answer(*args) for args in reversed(calls)][::-1]
    return [
        first if not difference(first, again) else DependsOnOrder(first, again)
        for first, again in zip(in_order, backwards, strict=True)
    ]
