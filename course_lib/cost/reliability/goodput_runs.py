"""Goodput by simulation: many runs of a job whose failures are drawn, each followed from failure to failure.

Where failures have no memory the formulas of ``goodput.py`` are what the runs tend to. The simulation needs neither:
it takes any times between failures. Weibull's with a shape below 1, as on real machines (0.7 to 0.8: Schroeder and
Gibson, "A large-scale study of failures in high-performance computing systems", DSN 2006), bunch them: after a failure
the next is likelier soon, and less likely later. What is assumed otherwise is said in ``goodput.py``; a repair takes
``repair_s`` each time, and the job begins without a restart.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, at_most, finite_above_zero
from course_lib.cost.reliability.goodput import FailingJob, Goodput

__all__ = ["SimulatedGoodput", "follow", "simulate_goodput"]

_MOST_RUNS, _MOST_FAILURES = 100_000, 20_000
_SHAPES = (0.3, 20.0)


@dataclass(frozen=True)
class SimulatedGoodput:
    """What came of the runs. ``mean``: shares over all runs; tuples have an entry for each run."""

    mean: Goodput
    standard_error: float  # of ``mean.useful``; nan for a single run
    useful_by_run: tuple[float, ...]
    failures_by_run: tuple[int, ...]


@checked
def simulate_goodput(
    job: FailingJob,
    interval_s: float,
    *,
    duration_s: float,
    num_runs: int = 100,
    seed: int = 0,
    weibull_shape: float = 1.0,
) -> SimulatedGoodput:
    """Run the job ``num_runs`` times for ``duration_s`` seconds, with a checkpoint after each ``interval_s`` of work.

    ``weibull_shape``: 1 for failures without memory, below 1 for failures in bunches, above 1 for wear; the mean time
    between them stays. The same seed gives the same runs. ``ValueError`` for what ``expected_goodput`` refuses, and
    for more than 20,000 expected failures in a run.
    """
    job.checked_interval_s(interval_s)
    finite_above_zero(duration_s=duration_s)
    at_least(1, num_runs=num_runs)
    at_most(_MOST_RUNS, num_runs=num_runs)
    at_least(0, seed=seed)
    _check_shape(weibull_shape)
    if duration_s / job.mean_time_between_s > _MOST_FAILURES:
        raise ValueError(
            f"duration_s is {duration_s:g}, in which the job fails about {duration_s / job.mean_time_between_s:.3g} "
            f"times; a simulated run has at most {_MOST_FAILURES:,} failures. The nearest that works is "
            f"{_MOST_FAILURES * job.mean_time_between_s:g}."
        )
    shares, num_failures = follow(job, interval_s, duration_s, _gaps(job, num_runs, seed, weibull_shape), num_runs)
    useful = shares[0]
    error = useful.std(ddof=1) / math.sqrt(num_runs) if num_runs > 1 else math.nan
    return SimulatedGoodput(
        Goodput(*shares.mean(axis=1).tolist()),
        float(error),
        tuple(useful.tolist()),
        tuple(num_failures.tolist()),
    )


def follow(
    job: FailingJob, interval_s: float, duration_s: float, gaps: Iterator[np.ndarray], num_runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the time, of shape (5, num_runs) in the order of ``Goodput``, and the failures of each run.

    Each array that ``gaps`` yields has, for each run, how long the job runs until it fails: (num_runs,) seconds.
    """
    totals_s, num_failures = np.zeros((5, num_runs)), np.zeros(num_runs, dtype=int)
    begin_s = np.zeros(num_runs)  # when each run was last set going
    back_s: deque[np.ndarray] = deque(maxlen=job.num_spares + 1)  # when the nodes that failed last are repaired
    restart_s = 0.0
    for gap_s in gaps:
        fails_s = begin_s + gap_s
        fails = fails_s < duration_s
        ran_s = np.clip(np.minimum(fails_s, duration_s) - begin_s, 0.0, None)
        totals_s[:4] += _one_gap(job, interval_s, restart_s, ran_s, fails)
        num_failures += fails
        back_s.append(fails_s + job.repair_s)
        full = len(back_s) > job.num_spares  # the node that failed so many failures ago must be back
        begin_s = np.maximum(fails_s, back_s[0]) if full else fails_s
        totals_s[4] += np.where(fails, np.minimum(begin_s, duration_s) - fails_s, 0.0)
        restart_s = job.restart_s
        if not fails.any():
            break
    return totals_s / duration_s, num_failures


def _one_gap(job: FailingJob, interval_s: float, restart_s: float, ran_s: np.ndarray, fails: np.ndarray) -> np.ndarray:
    """Seconds of useful work, writing, work redone and restarting, (4, num_runs), in what ran from start to failure.

    Where nothing ``fails`` the run is over, and what was begun is not lost.
    """
    cycle_s = interval_s + job.exposed_s
    restarting_s = np.minimum(ran_s, restart_s)
    worked_s = ran_s - restarting_s
    durable = np.floor(np.maximum(worked_s - job.hidden_s, 0.0) / cycle_s)  # checkpoints complete by the failure
    begun = np.floor(worked_s / cycle_s)
    rest_s = worked_s - begun * cycle_s
    whole = np.where(fails, durable, begun)
    useful_s = whole * interval_s + np.where(fails, 0.0, np.minimum(rest_s, interval_s))
    writing_s = whole * job.exposed_s + np.where(fails, 0.0, np.maximum(rest_s - interval_s, 0.0))
    redone_s = np.where(fails, worked_s - durable * cycle_s, 0.0)
    return np.stack([useful_s, writing_s, redone_s, restarting_s])


def _gaps(job: FailingJob, num_runs: int, seed: int, shape: float) -> Iterator[np.ndarray]:
    draw = np.random.default_rng(seed)
    scale_s = job.mean_time_between_s / math.gamma(1 + 1 / shape)
    while True:
        yield scale_s * draw.weibull(shape, num_runs)


def _check_shape(weibull_shape: float) -> None:
    low, high = _SHAPES
    if not low <= weibull_shape <= high:
        raise ValueError(
            f"weibull_shape is {weibull_shape}; it is a number from {low} to {high:g}, 1 for failures without "
            f"memory. The nearest that works is {min(max(weibull_shape, low), high)}."
        )
