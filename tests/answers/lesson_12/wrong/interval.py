"""12.interval: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import math

from course_lib import cost


def by_the_library(
    gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float
) -> tuple[float, float]:
    """Right, by what is to be built."""
    if not failures_per_gpu_day:
        return math.inf, 1.0
    mean_s = cost.mean_time_between_failures_s(failures_per_gpu_day, gpus)
    interval_s = cost.best_interval_s(checkpoint_s, mean_s)
    job = cost.FailingJob(mean_time_between_s=mean_s, write_s=checkpoint_s, restart_s=restart_s)
    return interval_s, cost.expected_goodput(job, interval_s).useful


EXERCISE = "12.interval"
FORBIDDEN = by_the_library
