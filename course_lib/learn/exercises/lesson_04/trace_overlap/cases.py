"""04.trace_overlap: the spans on which it is tried, and the time that both lists have in common."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["CASES", "Spans", "right"]

Spans = list[tuple[float, float]]  # start, duration


def _many(seed: int, count: int) -> Spans:
    """Spans on a grid of eighths, in no order; overlaps of every sort."""
    dice = random.Random(seed)
    return [(dice.randrange(400) / 8, dice.randrange(14) / 8) for _ in range(count)]


CASES: dict[str, tuple[Spans, Spans]] = {  # communication, computing
    "a kernel inside an all-reduce": ([(10.0, 6.0)], [(12.0, 3.0)]),
    "an all-reduce inside a kernel": ([(12.0, 3.0)], [(10.0, 6.0)]),
    "a kernel that begins before the all-reduce": ([(10.0, 6.0)], [(8.0, 5.0)]),
    "a kernel that ends after the all-reduce": ([(10.0, 6.0)], [(14.0, 5.0)]),
    "a kernel that touches the all-reduce": ([(10.0, 6.0)], [(16.0, 4.0), (5.0, 5.0)]),
    "a kernel far from the all-reduce": ([(10.0, 6.0)], [(30.0, 4.0)]),
    "a kernel of the same time": ([(10.0, 6.0)], [(10.0, 6.0)]),
    "three kernels with gaps": ([(10.0, 20.0)], [(8.0, 4.0), (15.0, 2.0), (27.0, 9.0)]),
    "kernels that touch each other": ([(10.0, 20.0)], [(12.0, 4.0), (16.0, 4.0), (20.0, 1.0)]),
    "kernels on two streams at once": ([(10.0, 10.0)], [(11.0, 5.0), (13.0, 5.0)]),
    "a kernel inside another": ([(10.0, 20.0)], [(12.0, 10.0), (14.0, 2.0), (25.0, 1.0)]),
    "a kernel inside another, and one that follows": ([(10.0, 20.0)], [(12.0, 10.0), (14.0, 2.0), (20.0, 6.0)]),
    "two all-reduces at once": ([(10.0, 6.0), (12.0, 8.0)], [(13.0, 5.0)]),
    "an all-reduce inside another": ([(10.0, 12.0), (12.0, 3.0)], [(11.0, 9.0)]),
    "one long kernel over three all-reduces": ([(10.0, 2.0), (20.0, 2.0), (30.0, 2.0)], [(11.0, 20.0)]),
    "spans in no order": ([(30.0, 5.0), (10.0, 5.0)], [(32.0, 1.0), (8.0, 4.0), (13.0, 3.0), (1.0, 2.0)]),
    "the same spans twice": ([(10.0, 6.0), (10.0, 6.0)], [(12.0, 3.0), (12.0, 3.0)]),
    "spans that start together, the longer first": ([(10.0, 8.0), (10.0, 2.0)], [(12.0, 5.0), (12.0, 1.0)]),
    "spans that start together, the shorter first": ([(10.0, 2.0), (10.0, 8.0)], [(12.0, 1.0), (12.0, 5.0)]),
    "spans of no duration": ([(10.0, 0.0), (20.0, 4.0)], [(9.0, 3.0), (22.0, 0.0), (21.0, 1.0)]),
    "tenths of a microsecond": ([(136647.3, 3307.0)], [(136650.1, 2.3), (136655.7, 5.6), (139954.1, 5.0)]),
    "a twentieth of a microsecond": ([(10.0, 5.0)], [(14.95, 3.0), (9.0, 1.05)]),
    "times below zero": ([(-20.0, 15.0)], [(-25.0, 8.0), (-6.0, 12.0)]),
    "no kernels": ([(10.0, 6.0)], []),
    "no communication": ([], [(10.0, 6.0)]),
    "nothing at all": ([], []),
    "sixty spans": (_many(4, 20), _many(5, 40)),
    "as many kernels as a trace has": ([(0.5, 7000.0)], [(2.0 * number, 1.0) for number in range(3000)]),
}


def right(communication: Sequence[tuple[float, float]], computing: Sequence[tuple[float, float]]) -> float:
    """By a sweep over starts and ends, counting what is open of either."""
    events = []
    for which, spans in enumerate((communication, computing)):
        for start, duration in spans:
            events += [(start, which, 1), (start + duration, which, -1)]
    events.sort()
    num_open, total, before = [0, 0], 0.0, 0.0
    for moment, which, change in events:
        if all(num_open):
            total += moment - before
        num_open[which] += change
        before = moment
    return total
