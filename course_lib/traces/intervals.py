"""Sets of moments as intervals: their union, what two have in common, what one has and the other has not.

An interval set is an array of shape [n, 2], of starts and ends, by start, apart from each other; one unit throughout.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Intervals", "common", "gaps", "length", "minus", "union"]

Intervals = NDArray[np.float64]


def union(pairs: Iterable[tuple[float, float]] | Intervals) -> Intervals:
    """The moments in any of these (start, end), in any order; empty ones are left out."""
    array = np.array(pairs if isinstance(pairs, np.ndarray) else list(pairs), dtype=np.float64).reshape(-1, 2)
    array = array[array[:, 1] > array[:, 0]]
    if not len(array):
        return array
    array = array[np.argsort(array[:, 0], kind="stable")]
    ends = np.maximum.accumulate(array[:, 1])
    first = np.concatenate([[True], array[1:, 0] > ends[:-1]])  # begins after all before it have ended
    last = np.concatenate([first[1:], [True]])
    return np.stack([array[first, 0], ends[last]], axis=1)


def common(one: Intervals, other: Intervals) -> Intervals:
    """The moments in both."""
    if not len(one) or not len(other):
        return np.empty((0, 2))
    # of each interval of `one`, the range of those of `other` that touch it
    begin = np.searchsorted(other[:, 1], one[:, 0], side="right")
    end = np.maximum(np.searchsorted(other[:, 0], one[:, 1], side="left"), begin)
    counts = end - begin
    mine = np.repeat(np.arange(len(one)), counts)
    theirs = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    starts = np.maximum(one[mine, 0], other[theirs, 0])
    return np.stack([starts, np.minimum(one[mine, 1], other[theirs, 1])], axis=1)


def gaps(inside: Intervals, start: float, end: float) -> Intervals:
    """The moments from ``start`` to ``end`` that are in none of ``inside``."""
    inside = common(inside, np.array([[start, end]]))
    edges = np.concatenate([[start], inside.reshape(-1), [end]]).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def minus(one: Intervals, other: Intervals) -> Intervals:
    """The moments in ``one`` that are not in ``other``."""
    if not len(one):
        return one
    return common(one, gaps(other, float(one[0, 0]), float(one[-1, 1])))


def length(intervals: Intervals) -> float:
    """How long they last together."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())
