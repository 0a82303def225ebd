"""Whether a clock could be believed: how long the ranks of a trial were runnable and had no core.

A trial that waits in place of computing is slowed by nothing but a machine that has no core for a rank when its wait
is over. Linux says how long that was (``cluster/failures/cpu_deadline.py``); where the system says nothing, the clock
is believed.

Three ways to decide all the same: by bounds that hold on any machine (``Bounds``), by what one round has shown
(``borne_out``), or in a quiet round alone (``in_quiet``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from course_lib.claims.court.evidence import Evidence, Ranks, blocked
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.cpu_deadline import Reading, read_threads
from course_lib.meter import time_text

__all__ = ["ROUNDS", "Bounds", "ThresholdLine", "Timed", "borne_out", "in_quiet", "too_busy", "unclear"]

ROUNDS = 3
_MUCH = 0.03  # of the time, of the rank that waited longest
T = TypeVar("T")


@dataclass(frozen=True)
class Timed:
    """A step of one rank: seconds on its clock, and those of them, at most, in which its threads waited for a core."""

    seen_s: float
    in_line_s: float

    @classmethod
    def of(cls, me: Rank, ready: Callable[[], None], step: Callable[[], None]) -> Timed:
        """Let this rank take a step once all are ready; what waits for a core meanwhile counts from before that."""
        pids = [os.getpid()]
        before = read_threads(pids)
        ready()
        began_s = time.perf_counter()
        step()
        seen_s = time.perf_counter() - began_s
        return cls(seen_s, sum(_in_line_s(before, read_threads(pids)).values()))


@dataclass(frozen=True)
class Bounds:
    """How long a step takes where every rank has a core: at least and at most so many seconds.

    A rank in line makes a step longer by that time at most, and never shorter. So each step that was seen gives both
    bounds, and equal steps together give the closest of them.
    """

    least_s: float
    most_s: float

    @classmethod
    def of(cls, by_rank: Iterable[Sequence[Timed]]) -> Bounds:
        """From the same equal steps on each rank; a step is over when its slowest rank is."""
        steps = list(zip(*by_rank, strict=True))
        most_s = min(max(timed.seen_s for timed in step) for step in steps)
        least_s = max(max(timed.seen_s for timed in step) - sum(timed.in_line_s for timed in step) for step in steps)
        return cls(max(0.0, min(least_s, most_s)), most_s)  # ranks that stood in line at once may sum up to more

    def below(self, limit: Bounds | float) -> bool | None:
        """Whether it takes less than that. None: the bounds leave it open."""
        other = limit if isinstance(limit, Bounds) else Bounds(limit, limit)
        return True if self.most_s < other.least_s else False if self.least_s >= other.most_s else None

    def times(self, factor: float) -> Bounds:
        return Bounds(factor * self.least_s, factor * self.most_s)

    def __str__(self) -> str:
        least = f"{time_text(self.least_s)} to" if self.least_s > 0 else "at most"
        return f"{least} {time_text(self.most_s)}"


def unclear(*spans: Bounds) -> Evidence:
    """The evidence of a trial whose spans leave the verdict open."""
    return blocked(
        "the machine is too busy: ranks stood in line for a core. Without that wait, steps would have taken "
        f"{', and '.join(map(str, spans))}, which decides nothing. Try again when the machine is quiet"
    )


class ThresholdLine:
    """The ranks of a cluster, from now on: which share of the time the one that waited longest had no core."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = list(cluster.call(_pid, show=False))
        self._before, self._began_s = read_threads(self._pids), time.monotonic()

    def share(self) -> float:
        passed_s = time.monotonic() - self._began_s
        return max(_in_line_s(self._before, read_threads(self._pids)).values(), default=0.0) / passed_s


def _pid(me: Rank) -> int:
    return os.getpid()


def _in_line_s(before: Reading, after: Reading) -> dict[int, float]:
    """By process, the seconds in which its threads waited for a core."""
    total_s: dict[int, float] = {}
    for thread, (_, in_line) in after.items():
        added_s = in_line - before.get(thread, (0.0, 0.0))[1]
        total_s[thread[0]] = total_s.get(thread[0], 0.0) + added_s
    return total_s


def borne_out(cluster: Cluster, rounds: Iterable[Callable[[], T]], bears_out: Callable[[T], bool]) -> tuple[T, float]:
    """The first of some rounds that bears a claim out, else the one in which ranks waited least for a core; and that
    share of its time.

    A crowded machine hides what is there; it does not make what is not. So one round that shows it is enough, and what
    speaks against it counts where nobody stood in line.
    """
    found: list[tuple[float, T]] = []
    for measure in rounds:
        line = ThresholdLine(cluster)
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
            lines: dict[int, ThresholdLine] = {}

            def lend(size: int, lines: dict[int, ThresholdLine] = lines) -> Cluster:
                lines.setdefault(size, ThresholdLine(ranks(size)))
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
    """A verdict of its own where ranks waited for a core for this share of the time; None where it was little."""
    if share <= _MUCH:
        return None
    return blocked(
        f"the machine is too busy: a rank stood in line for a core for {share:.0%} of the time. Try again when the "
        "machine is quiet"
    )
