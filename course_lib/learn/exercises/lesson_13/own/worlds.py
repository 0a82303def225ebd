"""Worlds for 13.own: in each it is known whether the claim holds, and whether a clock there can show it.

The claim: an all-reduce of twice as many bytes takes twice as long, which is to say 1.8 to 2.2 times as long. A world
gives seconds for a size, with noise, load that grows from call to call, or calls that are slow now and then. Numbers
are drawn anew, from the same seed, for each answer; what is to be found is far enough from every edge that the order in
which an answer measures makes no difference.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LEAST", "MOST", "OPEN", "WORLDS", "Clock", "World", "most_measured"]

LEAST, MOST = 1.8, 2.2
OPEN = "cannot tell here"
_KIB, _MIB = 1024, 2**20
_SLOW = 20.0  # times as long
_MEETING_S, _MEETINGS = 0.004, 6  # so long a call in another thread takes, as long as no two have met


def most_measured(pairs: int) -> int:
    """So many measurements of a size, at most, where so many pairs are asked for: a few more warm up."""
    return pairs + pairs // 4 + 8


@dataclass(frozen=True)
class World:
    """What is so: by size, how many times as long twice as many bytes take. And what the clock shows of it.

    ``noise`` is the spread of a single time (one number, or one by size), ``grows`` the factor by which every call
    takes longer than the call before, ``slow_every`` has each so-manieth call disturbed, ``slow_first`` the first ones.
    """

    verdict: str
    ratios: Mapping[int, float]
    noise: float | Mapping[int, float] = 0.01
    grows: float = 1.0
    slow_every: int = 0
    slow_first: int = 0
    pairs: int = 61

    def noise_of(self, size_bytes: int) -> float:
        return self.noise if isinstance(self.noise, float) else self.noise[size_bytes]


@dataclass
class Clock:
    """``clock(size_bytes)`` runs one all-reduce in a world; it counts what it was asked.

    ``overlapped``: two were asked for at the same time. In the thread that made the clock no two can be.
    """

    world: World
    measured: Counter[int] = field(default_factory=Counter)
    overlapped: bool = False
    _random: random.Random = field(default_factory=lambda: random.Random(13))
    _thread: int = field(default_factory=threading.get_ident)
    _inside: int = 0

    def __call__(self, size_bytes: int) -> float:
        self._inside += 1
        try:
            if threading.get_ident() != self._thread and self.measured.total() < _MEETINGS:
                time.sleep(_MEETING_S)
            self.overlapped |= self._inside > 1
            return self._time_s(size_bytes)
        finally:
            self._inside -= 1

    def _time_s(self, size_bytes: int) -> float:
        ratios = self.world.ratios
        size = size_bytes if size_bytes in ratios else size_bytes / 2
        if size not in ratios:
            known = ", ".join(f"{one:,}" for one in ratios)
            raise ValueError(f"time_s({size_bytes!r}): here {known} bytes are of interest, and twice as many of each")
        call = self.measured.total()
        self.measured[size_bytes] += 1
        time_s = 1e-3 * (1 + size / _MIB) * (1.0 if size_bytes == size else ratios[int(size)])
        time_s *= self.world.grows**call * math.exp(self._random.gauss(0.0, self.world.noise_of(int(size))))
        every = self.world.slow_every
        is_slow = call < self.world.slow_first or (every and call % every == every // 2)
        return time_s * _SLOW if is_slow else time_s


WORLDS: dict[str, World] = {
    "a link on which bytes decide": World("holds", {64 * _MIB: 1.98, 256 * _MIB: 2.0}),
    "a link on which every call costs the same": World("false", {_KIB: 1.0, 8 * _KIB: 1.02}),
    "small messages and large ones": World("holds with conditions", {_KIB: 1.03, 64 * _MIB: 1.99}),
    "three sizes, of which the largest no longer fits a cache": World(
        "holds with conditions", {_MIB: 1.97, 4 * _MIB: 2.02, 16 * _MIB: 3.1}
    ),
    "one size with half of the ratio, one with twice": World("false", {_KIB: 1.0, 16 * _MIB: 3.0}),
    "a ratio of 2.12": World("holds", {_MIB: 2.12}),
    "a ratio of 2.3": World("false", {_MIB: 2.3}),
    "a ratio of 1.87": World("holds", {_MIB: 1.87}),
    "a ratio of 1.73": World("false", {_MIB: 1.73}),
    "noise that hides everything": World(OPEN, {_MIB: 2.0}, noise=0.9, pairs=81),
    "noise around a ratio of 2": World(OPEN, {_MIB: 2.0}, noise=0.25, pairs=81),
    "noise around a ratio of 2.2": World(OPEN, {_MIB: 2.2}, noise=0.08, pairs=81),
    "noise around a ratio of 1.8": World(OPEN, {_MIB: 1.8}, noise=0.08, pairs=81),
    "noise that hides the small size alone": World(
        OPEN, {_KIB: 2.0, 64 * _MIB: 2.0}, noise={_KIB: 0.6, 64 * _MIB: 0.01}, pairs=81
    ),
    "noise at one size, and another at which it is false": World(
        OPEN, {_KIB: 1.0, 64 * _MIB: 2.0}, noise={_KIB: 0.01, 64 * _MIB: 0.6}, pairs=81
    ),
    "three sizes in no order, of which one is open, one as claimed, and one not": World(
        OPEN, {64 * _MIB: 2.0, _KIB: 1.0, _MIB: 2.0}, noise={64 * _MIB: 0.01, _KIB: 0.01, _MIB: 0.6}, pairs=81
    ),
    "a load that grows, and three sizes": World(
        "holds", {16 * _MIB: 2.0, 4 * _MIB: 2.0, 64 * _MIB: 2.0}, grows=1.05, pairs=41
    ),
    "a load that grows with every call": World("holds", {_MIB: 2.0}, grows=1.03, pairs=41),
    "a load that grows, and a ratio of 1": World("false", {_MIB: 1.0}, grows=1.0172, pairs=41),
    "a load that goes down with every call": World("holds", {_MIB: 2.0}, grows=1 / 1.03, pairs=41),
    "another program that disturbs each seventh call": World("holds", {_MIB: 2.0}, slow_every=7),
    "such a program, and a ratio of 1": World("false", {_MIB: 1.0}, slow_every=7),
    "a first call that takes far longer": World("holds", {_MIB: 2.0}, slow_first=1),
    "few pairs": World("holds", {_MIB: 2.0}, noise=0.02, pairs=9),
}
