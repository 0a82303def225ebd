"""A mission for the schedule studio: what a schedule must reach, and what one still lacks."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.text import counted
from course_lib.schedules import Schedule, peak_in_flight
from course_lib.schedules.trace import ScheduleTrace

__all__ = ["Goal"]


@dataclass(frozen=True)
class Goal:
    """A mission: a schedule for so many ranks and micro-batches, within a memory limit, with little idle time."""

    num_ranks: int
    num_micro_batches: int
    max_in_flight: int  # micro-batches that a rank may have in flight; each counts once a stage
    idle_share: float  # to stay below

    def missed(self, schedule: Schedule, simulation: ScheduleTrace) -> list[str]:
        """What is still wrong, in words; nothing when the goal is reached."""
        wrong = []
        if (schedule.num_ranks, schedule.num_micro_batches) != (self.num_ranks, self.num_micro_batches):
            wrong.append(f"the goal is for {self._size}")
        if max(peak_in_flight(schedule)) > self.max_in_flight:
            most = max(peak_in_flight(schedule))
            wrong.append(f"a rank has {most} micro-batches in flight, and the goal allows {self.max_in_flight}")
        if simulation.idle_share >= self.idle_share - 1e-9:
            wrong.append(
                f"the planned idle share is {simulation.idle_share:.1%}, and the goal is less than "
                f"{self.idle_share:.1%}"
            )
        return wrong

    @property
    def _size(self) -> str:
        return f"{counted(self.num_ranks, 'rank')} and {counted(self.num_micro_batches, 'micro-batch')}"

    def __str__(self) -> str:
        return f"{self._size}, at most {self.max_in_flight} in flight on a rank, less than {self.idle_share:.1%} idle"
