"""How the clocks of a node stand to those of the notebook's machine, by questions that the node has answered.

An answer tells it right to half the time that question and answer took (Cristian, "Probabilistic clock
synchronization", 1989). Clocks drift, so each later answer is held against what is known: it counts where it is as
sharp, and where both cannot be right.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from course_lib.base.clock import now_s

__all__ = ["ClockReading", "NodeClock", "clocks_here"]


@dataclass(frozen=True)
class ClockReading:
    """What the clocks of a machine show, in seconds: the one of a job, and the time of day since 1970."""

    job_s: float
    day_s: float


def clocks_here() -> ClockReading:
    """This machine's clocks, now."""
    return ClockReading(now_s(), time.time())


class NodeClock:
    """``behind_s`` is to be added to a time of the node's job clock, for one of this machine's.

    ``day_ahead_s``: by how much the node's time of day is ahead of ours. Both are right to ``right_to_s``.
    """

    def __init__(self) -> None:
        self.behind_s = self.day_ahead_s = 0.0
        self.right_to_s = math.inf

    def take(self, asked: ClockReading, theirs: ClockReading, answered: ClockReading) -> None:
        """Hold a reading of the node's clocks against what is known; ours are from just before and just after it."""
        right_to_s = (answered.job_s - asked.job_s) / 2
        behind_s = (asked.job_s + answered.job_s) / 2 - theirs.job_s
        day_ahead_s = theirs.day_s - (asked.day_s + answered.day_s) / 2
        is_as_sharp = right_to_s <= self.right_to_s
        both_may_be_right = abs(behind_s - self.behind_s) <= right_to_s + self.right_to_s
        if is_as_sharp or not both_may_be_right:
            self.behind_s, self.right_to_s = behind_s, right_to_s
            self.day_ahead_s = day_ahead_s
