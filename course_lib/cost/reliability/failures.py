"""How often a job on many GPUs fails: a rate for each GPU, and what follows for all of them.

Training is synchronous: one GPU that fails stops the job. So rates add up, and what happens to one GPU once in years
happens to a large job several times a day. A rate counts everything that stopped the job (GPUs, memory, network,
hosts, software) and shares it out among the GPUs.

What is assumed: every GPU has the same rate, it stays the same over time, and failures come independently of each
other (a Poisson process). Real ones come in bursts, and a new machine fails more often than an old one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, finite_above_zero, known, not_negative

__all__ = [
    "FAILURE_RATES",
    "FailureRate",
    "chance_of_no_failure",
    "failure_rate",
    "failures_per_day",
    "mean_time_between_failures_s",
]

DAY_S = 86_400.0


@checked
def failures_per_day(rate_per_gpu_day: float, num_gpus: int) -> float:
    """Failures of a job in a day. ``rate_per_gpu_day``: failures of one GPU in a day, 0.0005 for example."""
    not_negative(rate_per_gpu_day=rate_per_gpu_day)
    at_least(1, num_gpus=num_gpus)
    return rate_per_gpu_day * num_gpus


@checked
def mean_time_between_failures_s(rate_per_gpu_day: float, num_gpus: int) -> float:
    """How long a job runs from one failure to the next, in seconds, on average. ``ValueError`` for a rate of 0."""
    finite_above_zero(rate_per_gpu_day=rate_per_gpu_day)
    return DAY_S / failures_per_day(rate_per_gpu_day, num_gpus)


@checked
def chance_of_no_failure(rate_per_gpu_day: float, num_gpus: int, time_s: float) -> float:
    """The probability that a job gets through ``time_s`` seconds without a failure, 0 to 1."""
    not_negative(time_s=time_s)
    return math.exp(-failures_per_day(rate_per_gpu_day, num_gpus) * (time_s / DAY_S))


@checked
@dataclass(frozen=True, kw_only=True)
class FailureRate:
    """A rate that somebody published: so many failures on so many GPUs in so many days."""

    name: str
    num_failures: float
    num_gpus: int
    days: float
    source: str = ""

    def __post_init__(self) -> None:
        at_least(1, num_gpus=self.num_gpus)
        finite_above_zero(num_failures=self.num_failures, days=self.days)

    @property
    def per_gpu_day(self) -> float:
        """Failures of one GPU in a day."""
        return self.num_failures / self.num_gpus / self.days

    @property
    def per_day(self) -> float:
        """Failures of all of its GPUs in a day."""
        return self.num_failures / self.days

    def mean_time_between_s(self, num_gpus: int | None = None) -> float:
        """From one failure to the next, in seconds: on its own number of GPUs, or at its rate on another."""
        return mean_time_between_failures_s(self.per_gpu_day, self.num_gpus if num_gpus is None else num_gpus)


_RSC = "Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters, arXiv 2410.21680"

FAILURE_RATES = {
    rate.name: rate
    for rate in (
        FailureRate(
            name="Llama 3 405B",  # unexpected interruptions; 47 planned ones are not counted
            num_failures=419,
            num_gpus=16_384,
            days=54,
            source="Llama Team, The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.4: H100, 8 a node",
        ),
        FailureRate(
            name="RSC-1",
            num_failures=6.50,
            num_gpus=8,
            days=1000,
            source=f"{_RSC}: 6.50 failures in 1000 days of a node of 8 A100, over 11 months of a research cluster",
        ),
        FailureRate(
            name="RSC-2",
            num_failures=2.34,
            num_gpus=8,
            days=1000,
            source=f"{_RSC}: 2.34 failures in 1000 days of a node of 8 A100, on a smaller cluster beside RSC-1",
        ),
    )
}


@checked
def failure_rate(name: str) -> FailureRate:
    """A published rate by name. ``ValueError`` with the names there are."""
    return FAILURE_RATES[known("failure rate", name, FAILURE_RATES)]
