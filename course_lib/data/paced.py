"""Reads that take as long as one says: what a slow disk does to a loader, without a disk.

A read sleeps, and so it uses no core; what decoding costs is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch.utils.data import Dataset

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least

__all__ = ["PacedReads"]

_LONGEST_S = 3600


@checked
class PacedReads(Dataset[int]):
    """``num_items`` items; item i is i, and takes ``read_times_s[i]`` seconds to read, over and over from the first.

    ``PacedReads(100, [0.001] * 9 + [0.020])``: 1 ms for an item, and 20 ms for each tenth. ``ValueError`` for no
    items, no times, and a time below 0 or above an hour.
    """

    def __init__(self, num_items: Int64, read_times_s: Sequence[float]) -> None:
        at_least(1, num_items=num_items)
        if len(read_times_s) == 0:
            raise ValueError("read_times_s is empty: give a time for each item, or at least one, such as [0.001].")
        for place, read_s in enumerate(read_times_s):
            if not 0.0 <= read_s <= _LONGEST_S:
                nearest = _LONGEST_S if read_s > 0.0 else 0
                raise ValueError(
                    f"read_times_s[{place}]={read_s!r} does not work: a read takes from 0 to {_LONGEST_S} seconds. "
                    f"The nearest that works is {nearest}."
                )
        self.num_items = num_items
        self.read_times_s = tuple(read_times_s)

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, index: int) -> int:
        if not -self.num_items <= index < self.num_items:
            raise IndexError(f"There is no item {index}: they are numbered 0 to {self.num_items - 1}.")
        index %= self.num_items
        time.sleep(self.read_times_s[index % len(self.read_times_s)])
        return index
