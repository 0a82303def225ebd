"""Goodput: the share of a job's time that became training, and where the rest went. By formula.

A job with failures works for an interval, writes a checkpoint, works on. When it fails it restarts and goes on from the
last checkpoint that was complete. What is assumed:

- failures come at a constant rate (mean time between them M), also while the job writes or restarts;
- *asynchronous* checkpoints: training waits for ``exposed_share`` of a write, the copy out of the GPUs, say; the rest
  goes on beside it and costs it nothing. Until it is over, the checkpoint before counts, so it makes a failure dearer
  by just its length, and does not change the best interval (Vaidya, "Impact of Checkpoint Latency on Overhead Ratio of
  a Checkpointing Scheme", IEEE Transactions on Computers 46(8), 1997);
- *spare nodes*: a failure takes one node away for ``repair_s``. The job goes on at once while there is a spare; else it
  waits, and nothing fails meanwhile. That is a queue without places to wait: Erlang's loss formula, exact for repairs
  of any distribution.

Then time for an interval of work is M exp((restart + hidden) / M) (exp((interval + exposed) / M) - 1), Daly's complete
cost function (2006) with the hidden part added to the restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, at_most, finite_above_zero, not_negative
from course_lib.cost.reliability.checkpoints import best_interval_s

__all__ = ["FailingJob", "Goodput", "expected_goodput", "first_order_goodput"]

_MOST_SPARES = 100_000


@dataclass(frozen=True)
class Goodput:
    """Shares of a job's time, which make up 1: ``useful`` is the goodput."""

    useful: float
    writing: float  # training stands still for checkpoints that were kept
    redone: float  # work and writes that a failure threw away
    restarting: float
    waiting: float  # for a node to be repaired


@checked
@dataclass(frozen=True, kw_only=True)
class FailingJob:
    """What a failure and a checkpoint cost a job, in seconds.

    ``write_s``: to write a checkpoint; ``restart_s``: to notice a failure, start again and read the checkpoint;
    ``exposed_share``: of the write, that training waits for, 0 to 1; ``repair_s``: until a node that failed is back,
    0 where another always is at hand; ``num_spares``: nodes beyond those that the job runs on.
    """

    mean_time_between_s: float
    write_s: float
    restart_s: float = 0.0
    exposed_share: float = 1.0
    repair_s: float = 0.0
    num_spares: int = 0

    def __post_init__(self) -> None:
        finite_above_zero(mean_time_between_s=self.mean_time_between_s, write_s=self.write_s)
        not_negative(restart_s=self.restart_s, repair_s=self.repair_s)
        at_least(0, num_spares=self.num_spares)
        at_most(_MOST_SPARES, num_spares=self.num_spares)
        if not 0 <= self.exposed_share <= 1:
            raise ValueError(
                f"exposed_share is {self.exposed_share}; it is a share from 0 to 1. The nearest is "
                f"{min(max(self.exposed_share, 0), 1)}."
            )

    @property
    def exposed_s(self) -> float:
        """How long training stands still for a checkpoint."""
        return self.exposed_share * self.write_s

    @property
    def hidden_s(self) -> float:
        """How long a checkpoint is written while training goes on."""
        return self.write_s - self.exposed_s

    @property
    def best_interval_s(self) -> float:
        """The interval of the highest ``expected_goodput``: one write is over before the next begins."""
        return max(best_interval_s(self.exposed_s, self.mean_time_between_s), self.hidden_s)

    @property
    def waiting_share(self) -> float:
        """The share of the time in which too many nodes are under repair, by Erlang's loss formula."""
        load = self.repair_s / self.mean_time_between_s
        if not load:
            return 0.0
        inverse = 1.0
        for servers in range(1, self.num_spares + 2):
            inverse = 1 + inverse * servers / load
        return 1 / inverse

    def checked_interval_s(self, interval_s: float) -> float:
        """``interval_s`` itself; ``ValueError`` where it is not above zero, or shorter than the hidden write."""
        above_zero(interval_s=interval_s)
        if math.isinf(interval_s + self.write_s):
            raise ValueError(
                f"interval_s is {interval_s}; a checkpoint that never comes saves nothing. Use a finite interval, "
                f"{self.best_interval_s:g} for example."
            )
        if interval_s < self.hidden_s:
            raise ValueError(
                f"interval_s is {interval_s}; training writes a checkpoint in the background for {self.hidden_s:g} s, "
                f"and the next one begins after that. The nearest that works is {self.hidden_s:g}."
            )
        return interval_s


@checked
def expected_goodput(job: FailingJob, interval_s: float) -> Goodput:
    """Where the time goes in the long run, with a checkpoint after each ``interval_s`` seconds of work: exact.

    ``ValueError`` for an interval of zero or less, and for one that is shorter than the hidden part of a write.
    """
    job.checked_interval_s(interval_s)
    mean_s, exposed_s = job.mean_time_between_s, job.exposed_s
    cycle_s = interval_s + exposed_s
    kept = _over_expm1(cycle_s / mean_s) * math.exp(-job.restart_s / mean_s - job.hidden_s / mean_s)
    running = 1 - job.waiting_share
    return Goodput(
        useful=running * kept * (interval_s / cycle_s),
        writing=running * kept * (exposed_s / cycle_s),
        redone=running * max(math.exp(-job.restart_s / mean_s) - kept, 0.0),
        restarting=running * -math.expm1(-job.restart_s / mean_s),
        waiting=job.waiting_share,
    )


@checked
def first_order_goodput(job: FailingJob, interval_s: float) -> float:
    """The goodput as it is often worked out: each loss by itself, half an interval lost by a failure, one by one.

    Right while interval, write and restart are short beside the mean time between failures; below 0 far from there.
    """
    job.checked_interval_s(interval_s)
    lost_s = interval_s / 2 + job.hidden_s + job.restart_s
    running = 1 - job.exposed_s / interval_s - lost_s / job.mean_time_between_s
    return (1 - job.waiting_share) * running


def _over_expm1(x: float) -> float:
    """x / (exp(x) - 1), for x of 0 and more: 1 at 0, and 0 where exp(x) is beyond any float."""
    if x > 700:
        return 0.0
    return x / math.expm1(x) if x else 1.0
