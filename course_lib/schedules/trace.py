"""What a pipeline did, simulated or on real ranks: spans of actions and messages, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from course_lib.schedules.action import Action
from course_lib.schedules.in_flight import peak_in_flight, peak_in_flight_by_stage
from course_lib.schedules.table import Schedule

__all__ = ["ActionSpan", "MessageSpan", "ScheduleTrace"]


class ActionSpan(NamedTuple):
    """An action from start to end, in seconds after the pipeline's start."""

    rank: int
    action: Action
    start_s: float
    end_s: float


class MessageSpan(NamedTuple):
    """What ``action`` made, in flight from rank to rank; waiting for the link is not counted."""

    sender: int
    receiver: int
    action: Action
    start_s: float
    end_s: float

    @property
    def time_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class ScheduleTrace:
    """One step of training, as simulated or as measured. ``rows[r]`` holds the spans of rank r, first to last."""

    schedule: Schedule
    rows: tuple[tuple[ActionSpan, ...], ...]
    messages: tuple[MessageSpan, ...]
    overlap: bool

    @cached_property
    def spans(self) -> tuple[ActionSpan, ...]:
        """The spans of all ranks by their start."""
        return tuple(sorted((span for row in self.rows for span in row), key=lambda span: span.start_s))

    @cached_property
    def makespan_s(self) -> float:
        """From the start of the first action to the end of the last one."""
        ends_s = [span.end_s for row in self.rows for span in row[-2:]]  # the last two may overlap
        return max(ends_s, default=0.0) - min((row[0].start_s for row in self.rows if row), default=0.0)

    @cached_property
    def compute_s(self) -> tuple[float, ...]:
        """For each rank the time in which it computes; where two actions overlap, it counts once."""
        return tuple(map(_covered_s, self.rows))

    @property
    def idle_share_by_rank(self) -> tuple[float, ...]:
        """For each rank the share of the whole step in which it does not compute (messages are no computing)."""
        if not self.makespan_s:
            return tuple(0.0 for _ in self.rows)
        return tuple(1 - compute_s / self.makespan_s for compute_s in self.compute_s)

    @property
    def idle_share(self) -> float:
        """The share of all ranks' time in which they do not compute: the mean of ``idle_share_by_rank``.

        The field calls it the bubble fraction. Narayanan et al. (arXiv 2104.04473) divide by the computing time
        instead of the whole, which is a larger number: (p - 1) / m for 1F1B.
        """
        return sum(self.idle_share_by_rank) / len(self.rows)

    @property
    def bubble_rate(self) -> float:
        """Idle share of the rank that is busy or waiting longest, from its first action's start to its last's end.

        The measure of arXiv 2401.10241: (cost - work) / cost. It does not count that later ranks start later, so it
        is smaller than ``idle_share`` where all ranks end together.
        """
        costs = [
            (max(span.end_s for span in row[-2:]) - row[0].start_s, rank) for rank, row in enumerate(self.rows) if row
        ]
        cost_s, rank = max(costs, default=(0.0, 0))
        return (cost_s - self.compute_s[rank]) / cost_s if cost_s else 0.0

    @property
    def peak_in_flight(self) -> tuple[int, ...]:
        """For each rank the most micro-batches that it has in flight at a time."""
        return peak_in_flight(self.schedule)

    @property
    def peak_in_flight_by_stage(self) -> tuple[int, ...]:
        """For each stage the most micro-batches that it has in flight at a time."""
        return peak_in_flight_by_stage(self.schedule)


def _covered_s(row: tuple[ActionSpan, ...]) -> float:
    """How long at least one of the spans lasts; they are in the order of their starts."""
    total_s, until_s = 0.0, float("-inf")
    for span in row:
        total_s += max(0.0, span.end_s - max(span.start_s, until_s))
        until_s = max(until_s, span.end_s)
    return total_s
