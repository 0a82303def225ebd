"""A deadline that leaves out the time in which the ranks were runnable and had no core (/proc schedstat).

On a node with thirty learners a second on the clock says little of a rank: it may have stood in line for a core all
that time. Linux keeps, for every thread, how long it ran and how long it was ready and did not run (the first two
numbers of ``/proc/PID/task/TID/schedstat``, in ns; ``Documentation/scheduler/sched-stats.rst``). Between two
readings, this much is not counted, the larger of

* the longest that one thread stood in line: a loop on each of four ranks, on two cores, has half the time to itself;
* the time in which all of them stood in line and none can have run: ranks that wait for each other in turn.

Nor is an import that is under way on a rank. A thread that computes, sleeps or waits for a peer uses up its time, so
what never ends still meets its limit; and nobody gets more than ten times of it. Where the system does not say
(macOS), the clock counts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["CpuDeadline", "UncountedTime"]

Reading = Mapping[tuple[int, int], tuple[float, float]]
"""By process and thread: seconds that it ran, and that it stood in line."""

MOST_TIMES = 10  # of its limit may pass on the clock
_MIN_SHARE = 0.05  # of the limit


@dataclass(frozen=True)
class UncountedTime:
    """Where the time of a call went: seconds on the clock, and those of them that were not counted."""

    clock_s: float = 0.0
    queued_s: float = 0.0
    importing_s: float = 0.0

    def in_words(self) -> str:
        """What was not counted, as "2.6 s on the clock: the ranks stood in line for a core for 1.6 s"; or nothing."""
        least_s = _MIN_SHARE * (self.clock_s - self.queued_s - self.importing_s)
        why = [f"the ranks stood in line for a core for {self.queued_s:.1f} s"] * (self.queued_s > least_s)
        why += [f"they were importing for {self.importing_s:.1f} s"] * (self.importing_s > least_s)
        return f"{self.clock_s:.1f} s on the clock: {' and '.join(why)}" if why else ""


class CpuDeadline:
    """A limit of ``limit_s`` seconds for the threads of some processes, from now on.

    The processes are read first when :meth:`mark` says so, or at the first :meth:`tick`: reading costs some 10 us a
    thread, and most calls are over before.
    """

    def __init__(
        self,
        limit_s: float,
        pids: Callable[[], Sequence[int]],
        *,
        read: Callable[[Sequence[int]], Reading] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s, self._pids, self._clock = limit_s, pids, clock
        self._read = read or read_threads
        self._began_s = clock()
        self._marked_s = self._began_s
        self._marks: Reading | None = None
        self._queued_s = self._importing_s = 0.0

    @property
    def is_marked(self) -> bool:
        return self._marks is not None

    @property
    def counted_s(self) -> float:
        """Seconds that count, by the last reading."""
        return self._clock() - self._began_s - self._queued_s - self._importing_s

    @property
    def left_s(self) -> float:
        """Seconds that are left if nothing holds the ranks up from now on; 0 when the time is over."""
        most_s = MOST_TIMES * self._limit_s - (self._clock() - self._began_s)
        return max(0.0, min(self._limit_s - self.counted_s, most_s))

    @property
    def uncounted(self) -> UncountedTime:
        return UncountedTime(self._clock() - self._began_s, self._queued_s, self._importing_s)

    def mark(self) -> None:
        """Read the threads; what holds them up is measured from here."""
        self._marks, self._marked_s = self._read(self._pids()), self._clock()

    def tick(self, *, importing: bool = False) -> None:
        """Read the threads again, and take out of account what held them up since the last reading.

        ``importing``: a rank is in the middle of an import; then none of that time counts.
        """
        before, since_s = self._marks, self._marked_s
        self.mark()
        passed_s = self._marked_s - since_s
        if importing:
            self._importing_s += passed_s
        elif before is not None and self._marks is not None:
            self._queued_s += _uncounted_s(before, self._marks, passed_s)

    def is_over(self) -> bool:
        """Whether the time is up; the threads are asked before that is said."""
        if self.left_s > 0:
            return False
        self.tick()
        return self.left_s <= 0


def _uncounted_s(before: Reading, after: Reading, passed_s: float) -> float:
    """Seconds of ``passed_s`` that are not counted. A thread that is new here was begun since ``before``."""
    ran_s = longest_s = together_s = 0.0
    for thread, (ran, queued) in after.items():
        ran_before, queued_before = before.get(thread, (0.0, 0.0))
        ran_s += ran - ran_before
        longest_s = max(longest_s, queued - queued_before)
        together_s += queued - queued_before
    return min(passed_s, max(longest_s, min(together_s, passed_s - ran_s)))


def read_threads(pids: Sequence[int]) -> Reading:
    """What the system says of every thread of these processes: nothing of one that has gone, or where it is mute."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                        ran_ns, queued_ns = file.read(100).split()[:2]
                    found[pid, int(thread)] = int(ran_ns) / 1e9, int(queued_ns) / 1e9
    return found
