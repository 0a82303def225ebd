"""How the clinic's job is set up, what can be changed, and what a change of one setting gains."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, finite_above_zero, is_number, known
from course_lib.cost.reliability.failures import failure_rate
from course_lib.cost.reliability.goodput import FailingJob
from course_lib.cost.reliability.goodput_runs import simulate_goodput

__all__ = ["SETTINGS", "Setup", "changed", "gained"]

DAY_S = 86_400.0
_SEED = 12

SETTINGS = {  # what may be changed, and the least that can be had
    "interval_s": 1.0,
    "write_s": 25.0,  # storage twice as fast
    "notice_s": 30.0,
    "start_s": 120.0,
}


@checked
@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a job is set up, in seconds.

    ``interval_s``: work from one checkpoint to the next; ``write_s``: training waits for a checkpoint; ``notice_s``:
    until a failure is noticed; ``start_s``: from there until training goes on.
    """

    num_gpus: int = 4096
    interval_s: float = 150.0
    write_s: float = 50.0
    notice_s: float = 600.0
    start_s: float = 420.0

    def __post_init__(self) -> None:
        at_least(1, num_gpus=self.num_gpus)
        finite_above_zero(
            interval_s=self.interval_s, write_s=self.write_s, notice_s=self.notice_s, start_s=self.start_s
        )

    @property
    def job(self) -> FailingJob:
        """The same for the simulation, with failures at the rate that was published of Llama 3."""
        return FailingJob(
            mean_time_between_s=failure_rate("Llama 3 405B").mean_time_between_s(self.num_gpus),
            write_s=self.write_s,
            restart_s=self.notice_s + self.start_s,
        )


@checked
def changed(setup: Setup, **change: float) -> Setup:
    """The setup with one setting changed. ``ValueError`` for more than one, and for what cannot be had."""
    if len(change) != 1:
        raise ValueError(
            f"{len(change)} settings are changed, {', '.join(change) or 'none'}; change one of {', '.join(SETTINGS)}, "
            "so that you know what the change did."
        )
    ((name, value),) = change.items()
    least = SETTINGS[known("setting", name, SETTINGS)]
    if not is_number(value) or not least <= value < math.inf:
        raise ValueError(f"{name} is {value!r}; it is a number of seconds. The least that can be had is {least:g}.")
    return _with(setup, name, float(value))


@checked
def gained(before: Setup, after: Setup) -> tuple[float, float, float]:
    """Simulated goodput before and after, and what was gained of what the best change of one setting gains, 0 to 1.

    The same failures strike all of them; a score below 0 is a loss.
    """
    was, now = (_goodput(setup) for setup in (before, after))
    most = max(_goodput(_with(before, name, value)) for name, value in _limits(before).items())
    return was, now, (now - was) / (most - was) if most > was else 0.0


def _with(setup: Setup, name: str, value: float) -> Setup:
    one: dict[str, Any] = {name: value}
    return replace(setup, **one)


def _limits(setup: Setup) -> dict[str, float]:
    """Each setting at its best."""
    return {**SETTINGS, "interval_s": setup.job.best_interval_s}


def _goodput(setup: Setup) -> float:
    runs = simulate_goodput(setup.job, setup.interval_s, duration_s=30 * DAY_S, num_runs=200, seed=_SEED)
    return runs.mean.useful
