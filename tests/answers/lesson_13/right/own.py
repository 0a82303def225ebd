"""Right answers to 13.own in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

__all__ = ["ANSWERS", "SAME"]

TimeOf = Callable[[int], float]


def round_by_round(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    """All sizes in each round, larger first in every other one; numpy's percentiles."""
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(pairs):
        for size in sizes:
            if turn % 2:
                large_s, small_s = time_s(2 * size), time_s(size)
            else:
                small_s, large_s = time_s(size), time_s(2 * size)
            ratios[size].append(large_s / small_s)
    low, middle, high = (
        dict(zip(sizes, np.percentile(list(ratios.values()), q, axis=1), strict=True)) for q in (25, 50, 75)
    )
    yes = [size for size in sizes if low[size] >= 1.8 and high[size] <= 2.2]
    no = [size for size in sizes if high[size] < 1.8 or low[size] > 2.2]
    if len(yes) + len(no) < len(sizes):
        return "cannot tell here", middle
    if not no:
        return "holds", middle
    return ("holds with conditions" if yes else "false"), middle


def by_sorting(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    """Places in a sorted list, and a warm-up."""
    said, middles = [], {}
    for size in sizes:
        time_s(size), time_s(2 * size)
        ordered = []
        for _ in range(pairs):
            small_s = time_s(size)
            ordered.append(time_s(size * 2) / small_s)
        ordered.sort()
        low, high = ordered[pairs // 4], ordered[-1 - pairs // 4]
        middles[size] = ordered[pairs // 2]
        if high < 1.8 or low > 2.2:
            said.append("false")
        elif low < 1.8 or high > 2.2:
            said.append("open")
        else:
            said.append("holds")
    counts = Counter(said)
    if counts["open"]:
        return ["cannot tell here", middles]
    for verdict in ("holds", "false"):
        if counts[verdict] == len(sizes):
            return [verdict, middles]
    return ["holds with conditions", middles]


def with_torch(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    """Quartiles of a tensor; answers as -1, 0, 1."""
    answers, middles = [], {}
    for size in sizes:
        times_s = torch.tensor([(time_s(size), time_s(2 * size)) for _ in range(pairs)], dtype=torch.float64)
        low, middle, high = torch.quantile(
            times_s[:, 1] / times_s[:, 0], torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
        ).tolist()
        middles[size] = middle
        answers.append(1 if low >= 1.8 and high <= 2.2 else -1 if high < 1.8 or low > 2.2 else 0)
    if 0 in answers:
        return "cannot tell here", middles
    same = len(set(answers)) == 1
    verdict = {1: "holds", -1: "false"}[answers[0]] if same else "holds with conditions"
    return verdict, middles


def by_counting(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    """The middle half lies inside where at most a quarter of the ratios lies below, and a quarter above."""
    answers, middles = {}, {}
    for size in sizes:
        ratios = [1 / (time_s(size) / time_s(2 * size)) for _ in range(pairs)]
        below, above = sum(ratio < 1.8 for ratio in ratios), sum(ratio > 2.2 for ratio in ratios)
        middles[size] = statistics.median(ratios)
        if 4 * below <= pairs and 4 * above <= pairs:
            answers[size] = True
        elif 4 * below >= 3 * pairs or 4 * above >= 3 * pairs:
            answers[size] = False
    if len(answers) < len(sizes):
        return "cannot tell here", middles
    some, every = any(answers.values()), all(answers.values())
    return ("holds" if every else "holds with conditions" if some else "false"), middles


ANSWERS = (round_by_round, by_sorting, with_torch, by_counting)
_EDGE = "No ratio of two times on a clock lies on a bound to the last bit."
_ORDER = "Quartiles, and what all sizes have in common, do not depend on the order."
_HOLDS = "found.append('holds' if low >= 1.8 and high <= 2.2 else 'open')"
SAME: dict[str, str] = {
    "4: `range(pairs)` -> `range(pairs + 1)`": "A pair more is no worse.",
    "4: `range(pairs)` -> `reversed(range(pairs))`": "The number of the pair is not used.",
    "6: `ratios.append(time_s(2 * size) / small_s)` -> `ratios.insert(0, time_s(2 * size) / small_s)`": _ORDER,
    "7: `statistics.quantiles(ratios, n=4)` -> `statistics.quantiles(ratios)`": "Quartiles are what it gives unasked.",
    "8: `high < 1.8` -> `high <= 1.8`": _EDGE,
    "8: `low > 2.2` -> `low >= 2.2`": _EDGE,
    "9: `found.append('false')` -> `found.insert(0, 'false')`": _ORDER,
    f"11: `{_HOLDS}` -> `{_HOLDS.replace('append(', 'insert(0, ')}`": _ORDER,
    "11: `low >= 1.8` -> `low > 1.8`": _EDGE,
    "11: `high <= 2.2` -> `high < 2.2`": _EDGE,
    "14: `0` -> `-1`": "It is read where all are equal.",
}
