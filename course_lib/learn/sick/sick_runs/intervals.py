"""Seconds of a rank in which it does one thing and not another, from spans that may overlap."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["exposed_s", "union"]

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same instants in intervals that are apart, in order; empty ones are left out."""
    apart: list[Interval] = []
    for begin_s, end_s in sorted(intervals):
        if apart and begin_s <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end_s))
        elif end_s > begin_s:
            apart.append((begin_s, end_s))
    return apart


def exposed_s(spans: Iterable[tuple[float, float, str]]) -> float:
    """Seconds in which a span of kind "communication" is open and none of kind "compute"."""
    every = list(spans)
    computing = union((begin_s, end_s) for begin_s, end_s, kind in every if kind == "compute")
    talking = union((begin_s, end_s) for begin_s, end_s, kind in every if kind == "communication")
    both = sum(
        max(0.0, min(end_s, other_end_s) - max(begin_s, other_begin_s))
        for begin_s, end_s in talking
        for other_begin_s, other_end_s in computing
    )
    return sum(end_s - begin_s for begin_s, end_s in talking) - both
