"""Right answers to 11.exposed in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ANSWERS", "SAME"]


def by_sweeping(spans: Any) -> float:
    """Begins and ends in the order of time, with a count of what is open."""
    events = []
    for begin_s, end_s, kind in spans:
        events += [(begin_s, 1, kind), (end_s, -1, kind)]
    events.sort(key=lambda event: event[0])
    open_now = {"compute": 0, "communication": 0}
    total_s, before_s = 0.0, 0.0
    for moment_s, change, kind in events:
        if open_now["communication"] and not open_now["compute"]:
            total_s += moment_s - before_s
        if kind in open_now:
            open_now[kind] += change
        before_s = moment_s
    return total_s


def by_taking_away(spans: Any) -> float:
    """What is left of the messages when computing has been cut out of them; then merged."""
    left = [(begin_s, end_s) for begin_s, end_s, kind in spans if kind == "communication"]
    for begin_s, end_s, kind in spans:
        if kind == "compute":
            before = [(a, min(b, begin_s)) for a, b in left if a < begin_s]
            after = [(max(a, end_s), b) for a, b in left if b > end_s]
            left = before + after
    total_s, reached_s = 0.0, float("-inf")
    for a, b in sorted(left):
        total_s += max(0.0, b - max(a, reached_s))
        reached_s = max(reached_s, b)
    return total_s


def by_union_of_both(spans: Any) -> float:
    """All that is either, less all that is computing."""

    def length(chosen: list[tuple[float, float]]) -> float:
        total_s, until_s = 0.0, None
        for begin_s, end_s in sorted(chosen):
            if until_s is None or begin_s > until_s:
                total_s, until_s = total_s + end_s - begin_s, end_s
            elif end_s > until_s:
                total_s, until_s = total_s + end_s - until_s, end_s
        return total_s

    computing = [(a, b) for a, b, kind in spans if kind == "compute"]
    talking = [(a, b) for a, b, kind in spans if kind == "communication"]
    return length(computing + talking) - length(computing)


def with_arrays(spans: Any) -> Any:
    """A row for each piece of time, a column for each span."""
    if not spans:
        return 0
    begin_s, end_s = np.array([span[:2] for span in spans], dtype=float).T
    kinds = np.array([span[2] for span in spans])
    edges = np.unique(np.concatenate([begin_s, end_s]))
    middles = (edges[1:] + edges[:-1]) / 2
    covers = (begin_s <= middles[:, None]) & (middles[:, None] <= end_s)
    bare = covers[:, kinds == "communication"].any(1) & ~covers[:, kinds == "compute"].any(1)
    return (np.diff(edges) * bare).sum()


ANSWERS = (by_sweeping, by_taking_away, by_union_of_both, with_arrays)
SAME: dict[str, str] = {
    "1: `edges = sorted({edge for begin_s, end_s, _ in spans for edge in (begin_s, end_s)})` after "
    "`total_s = 0.0`": "Neither line reads what the other makes.",
    "6: `total_s += right_s - left_s` -> a new name for a new value": "A number is a new value either way.",
}
