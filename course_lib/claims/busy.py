"""Whether a clock could be believed: how long the ranks of a trial stood in line for a core while it was read.

A trial that waits in place of computing is slowed by nothing but a machine that has no core for a rank when its wait
is over. Linux says how long that was (``cluster/patience.py``); where the system says nothing, the clock is believed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from course_lib.claims.evidence import Evidence, Ranks, blocked
from course_lib.cluster import Cluster, Rank
from course_lib.cluster.patience import Reading, read_threads

__all__ = ["ROUNDS", "Line", "borne_out", "in_quiet", "too_busy"]

ROUNDS = 3
_MUCH = 0.03  # of the time, of the rank that waited longest
T = TypeVar("T")


class Line:
    """The ranks of a cluster, from now on: which share of the time the one that waited longest stood in line."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = list(cluster.call(_pid, show=False))
        self._before, self._began_s = read_threads(self._pids), time.monotonic()

    def share(self) -> float:
        passed_s = time.monotonic() - self._began_s
        return max(_in_line_s(self._before, read_threads(self._pids)).values(), default=0.0) / passed_s


def _pid(me: Rank) -> int:
    return os.getpid()


def _in_line_s(before: Reading, after: Reading) -> dict[int, float]:
    """By process, the seconds in which its threads stood in line."""
    total_s: dict[int, float] = {}
    for thread, (_, in_line) in after.items():
        added_s = in_line - before.get(thread, (0.0, 0.0))[1]
        total_s[thread[0]] = total_s.get(thread[0], 0.0) + added_s
    return total_s


def borne_out(
    cluster: Cluster, rounds: Iterable[Callable[[], T]], bears_out: Callable[[T], bool]
) -> tuple[T, float]:
    """The first of some rounds that bears a claim out, else the one in which ranks stood in line least; and its share
    of the time in line.

    A crowded machine hides what is there; it does not make what is not. So one round that shows it is enough, and what
    speaks against it counts where nobody stood in line.
    """
    found: list[tuple[float, T]] = []
    for measure in rounds:
        line = Line(cluster)
        value = measure()
        found.append((line.share(), value))
        if bears_out(value):
            return value, found[-1][0]
    share, value = min(found, key=lambda one: one[0])
    return value, share


def in_quiet(trial: Callable[[Ranks], Evidence]) -> Callable[[Ranks], Evidence]:
    """A trial that a clock decides: it is run again while the machine is too busy, some times at most.

    The first round in which no rank stood in line for long decides; without one, that it cannot be told.
    """

    @wraps(trial)
    def run(ranks: Ranks) -> Evidence:
        shares = []
        for _ in range(ROUNDS):
            lines: dict[int, Line] = {}

            def lend(size: int, lines: dict[int, Line] = lines) -> Cluster:
                lines.setdefault(size, Line(ranks(size)))
                return ranks(size)

            evidence = trial(lend)
            shares.append(max((line.share() for line in lines.values()), default=0.0))
            if too_busy(shares[-1]) is None:
                return evidence
        undecided = too_busy(min(shares))
        assert undecided is not None
        return undecided

    return run


def too_busy(share: float) -> Evidence | None:
    """A verdict of its own where ranks stood in line for this share of the time; None where it was little."""
    if share <= _MUCH:
        return None
    return blocked(
        "this could not be judged here: the machine is too busy, and a rank stood in line for a core for "
        f"{share:.0%} of the time; try again when it is quiet"
    )
