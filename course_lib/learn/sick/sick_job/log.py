"""What the log of the clinic's job says: a line for each failure, and one for all checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, finite_above_zero
from course_lib.learn.sick.sick_job.settings import Setup

__all__ = ["JobFailure", "JobLog", "log_of"]

DAY_S = 86_400.0
_SEED = 12


@dataclass(frozen=True)
class JobFailure:
    """One line of a log, in seconds."""

    at_s: float  # since the job began
    redone_s: float  # work and writing since the last complete checkpoint
    notice_s: float
    start_s: float

    def __str__(self) -> str:
        day, minute = int(self.at_s // DAY_S) + 1, int(self.at_s % DAY_S // 60)
        return (
            f"day {day:>2} {minute // 60:02}:{minute % 60:02}  a rank is gone; noticed after {_clock(self.notice_s)}, "
            f"training again {_clock(self.start_s)} later; thrown away: {_clock(self.redone_s)}"
        )


@dataclass(frozen=True)
class JobLog:
    """What a job's log tells of some days."""

    setup: Setup
    days: float
    failures: tuple[JobFailure, ...]
    num_checkpoints: int  # written and kept

    def __str__(self) -> str:
        lines = [str(failure) for failure in self.failures]
        lines.append(
            f"{self.num_checkpoints:,} checkpoints in {self.days:g} days; training stood still for "
            f"{_clock(self.setup.write_s)} at each"
        )
        return "\n".join(lines)


@checked
def log_of(setup: Setup, *, days: float = 7.0, seed: int = _SEED) -> JobLog:
    """The log of one simulated run. The same seed gives the same log."""
    finite_above_zero(days=days)
    at_least(0, seed=seed)
    job, draw = setup.job, np.random.default_rng(seed)
    cycle_s, duration_s = setup.interval_s + setup.write_s, days * DAY_S
    failures: list[JobFailure] = []
    begin_s, restart_s, num_checkpoints = 0.0, 0.0, 0
    while True:
        end_s = begin_s + float(draw.exponential(job.mean_time_between_s))
        worked_s = max(min(end_s, duration_s) - begin_s - restart_s, 0.0)
        kept = math.floor(worked_s / cycle_s)
        num_checkpoints += kept
        if end_s >= duration_s:
            return JobLog(setup, days, tuple(failures), num_checkpoints)
        failures.append(JobFailure(end_s, worked_s - kept * cycle_s, setup.notice_s, setup.start_s))
        begin_s, restart_s = end_s, job.restart_s


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
