"""Bands of the planner's errors on runs kept apart, as wide as other clusters show that they have to be.

A band is to hold 8 of 10 runs of a cluster that nobody has measured. So each cluster in turn is left out, the bands are
made of the others, and it is counted how many of its runs lie in theirs. The tail that bands cut off on each side is
the largest at which 80 % of a cluster's runs lie in their bands on average, and 80 % of all runs; and of n tables
0.8 (n + 1) have to have 80 % of theirs, so that one more table has it in 8 of 10 cases, if it is like these (conformal
prediction). To judge this way itself, a cluster is left out of the choice of the tail as well.

A host may be faster or slower than told (``host``): what that explains of an error is taken out of it before bands are
made, and bands reach as much farther where it may count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from statistics import mean
from typing import NamedTuple

from course_lib.plan.inputs.error_bands import (
    ALL_KINDS,
    ErrorBand,
    ErrorBands,
    band_of_clusters,
    tie_of_pairs,
    widened,
)
from course_lib.plan.runs.kept_apart import KeptApart, pairs_of_layouts

__all__ = ["bands_of", "in_their_bands"]

_HELD = 0.8
_TAILS = (0.2, 0.15, 0.12, *(0.01 * percent for percent in range(10, -1, -1)))
_ONE_CLUSTER = 0.1  # the tail where there is no other cluster to choose it by


class _Ratio(NamedTuple):
    """Measured over told, of a step or of memory."""

    cluster: tuple[str, str]
    table: str
    kind: str
    value: float
    reach: tuple[float, float] = (1.0, 1.0)  # what a faster or slower host would make of what was told

    @property
    def rest(self) -> float:
        """What is left of the ratio without what the host may explain."""
        low, high = self.reach
        return max(1.0, self.value / high) if self.value > 1 else min(1.0, self.value / low)


def bands_of(judged: Sequence[KeptApart], host: float = 1.0) -> ErrorBands:
    """Bands by kind of layout, and of all; ValueError where no time was judged.

    ``host``: how many times faster or slower than told it may be.

    Without two layouts of one job nothing says what a tie is; it is then as wide as the band of all.
    """
    steps, memory = _steps(judged, host), _memory(judged)
    time = _bands(steps, _tail(steps))
    whole, pairs = time[ALL_KINDS], list(pairs_of_layouts(judged))
    return ErrorBands(
        time,
        _bands(memory, _tail(memory))[ALL_KINDS] if memory else ErrorBand(1.0, 1.0, 0, 0),
        tie_of_pairs(pairs) if pairs else whole.high / whole.low,
        host,
    )


def in_their_bands(
    judged: Sequence[KeptApart], *, memory: bool = False, host: float = 1.0
) -> dict[str, tuple[int, int]]:
    """By table: how many steps lie in their band, of how many; bands are those of the other clusters alone.

    ``memory``: of bytes in place of steps. Runs of the only cluster are judged by their own band.
    """
    ratios = _memory(judged) if memory else _steps(judged, host)
    found: dict[str, list[bool]] = defaultdict(list)
    for cluster in dict.fromkeys(one.cluster for one in ratios):
        others = [one for one in ratios if one.cluster != cluster] or ratios
        bands = _bands(others, _tail(others))
        for one in ratios:
            if one.cluster == cluster:
                found[one.table].append(_is_held(one, bands))
    return {table: (sum(each), len(each)) for table, each in found.items()}


def _steps(judged: Sequence[KeptApart], host: float) -> list[_Ratio]:
    return [
        _Ratio(one.cluster, one.run.run.table, one.kind, one.run.run.step_s / one.told_s, one.reach(host))
        for one in judged
        if one.run.run.step_s
    ]


def _memory(judged: Sequence[KeptApart]) -> list[_Ratio]:
    return [
        _Ratio(one.cluster, one.run.run.table, ALL_KINDS, one.run.run.memory_bytes / one.told_bytes)
        for one in judged
        if one.run.run.memory_bytes
    ]


def _bands(ratios: Sequence[_Ratio], tail: float) -> dict[str, ErrorBand]:
    kinds: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in ratios:
        for kind in {one.kind, ALL_KINDS}:
            kinds[kind][one.cluster].append(one.rest)
    made = {kind: band_of_clusters(list(clusters.values()), tail) for kind, clusters in kinds.items()}
    return widened(made or {ALL_KINDS: band_of_clusters([])})


def _is_held(one: _Ratio, bands: dict[str, ErrorBand]) -> bool:
    return bands.get(one.kind, bands[ALL_KINDS]).holds(1.0, one.rest)


def _tail(ratios: Sequence[_Ratio]) -> float:
    """The largest at which enough runs lie in the bands of other clusters."""
    clusters = list(dict.fromkeys(one.cluster for one in ratios))
    if len(clusters) < 2:
        return _ONE_CLUSTER
    return next((tail for tail in _TAILS if _is_enough(ratios, clusters, tail)), _TAILS[-1])


def _is_enough(ratios: Sequence[_Ratio], clusters: Sequence[tuple[str, str]], tail: float) -> bool:
    """Whether 80 % of a cluster's runs lie in the others' bands on average, 80 % of all, and so in enough tables."""
    held: dict[tuple[str, str], list[bool]] = {}
    tables: dict[str, list[bool]] = defaultdict(list)
    for cluster in clusters:
        bands = _bands([one for one in ratios if one.cluster != cluster], tail)
        own = [one for one in ratios if one.cluster == cluster]
        held[cluster] = [_is_held(one, bands) for one in own]
        for one, is_held in zip(own, held[cluster], strict=True):
            tables[one.table].append(is_held)
    whole = min(mean(map(mean, held.values())), mean(one for each in held.values() for one in each))
    good = sum(mean(each) >= _HELD for each in tables.values())
    return whole >= _HELD and good >= min(len(tables), ceil(_HELD * (len(tables) + 1)))
