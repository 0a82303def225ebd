"""Bands of the planner's errors on runs kept apart, as wide as other clusters show that they have to be.

A band is to hold 8 of 10 runs of a cluster that nobody has measured. So each cluster in turn is left out, the bands are
made of the others, and it is counted how many of its runs lie in theirs. The tail that bands cut off on each side is
the largest at which 80 % of a cluster's runs lie in their bands on average, and 80 % of all runs (cross-validation). To
judge this way itself, a cluster is left out of the choice of the tail as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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


def bands_of(judged: Sequence[KeptApart]) -> ErrorBands:
    """Bands by kind of layout, and of all; ValueError where no time was judged.

    Without two layouts of one job nothing says what a tie is; it is then as wide as the band of all.
    """
    steps, memory = _steps(judged), _memory(judged)
    time = _bands(steps, _tail(steps))
    whole, pairs = time[ALL_KINDS], list(pairs_of_layouts(judged))
    return ErrorBands(
        time,
        _bands(memory, _tail(memory))[ALL_KINDS] if memory else ErrorBand(1.0, 1.0, 0, 0),
        tie_of_pairs(pairs) if pairs else whole.high / whole.low,
    )


def in_their_bands(judged: Sequence[KeptApart], *, memory: bool = False) -> dict[str, tuple[int, int]]:
    """By table: how many steps lie in their band, of how many; bands are those of the other clusters alone.

    ``memory``: of bytes in place of steps. Runs of the only cluster are judged by their own band.
    """
    ratios = _memory(judged) if memory else _steps(judged)
    found: dict[str, list[bool]] = defaultdict(list)
    for cluster in dict.fromkeys(one.cluster for one in ratios):
        others = [one for one in ratios if one.cluster != cluster] or ratios
        bands = _bands(others, _tail(others))
        for one in ratios:
            if one.cluster == cluster:
                found[one.table].append(_is_held(one, bands))
    return {table: (sum(each), len(each)) for table, each in found.items()}


def _steps(judged: Sequence[KeptApart]) -> list[_Ratio]:
    return [
        _Ratio(one.cluster, one.run.run.table, one.kind, one.run.run.step_s / one.told_s)
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
            kinds[kind][one.cluster].append(one.value)
    made = {kind: band_of_clusters(list(clusters.values()), tail) for kind, clusters in kinds.items()}
    return widened(made or {ALL_KINDS: band_of_clusters([])})


def _is_held(one: _Ratio, bands: dict[str, ErrorBand]) -> bool:
    return bands.get(one.kind, bands[ALL_KINDS]).holds(1.0, one.value)


def _tail(ratios: Sequence[_Ratio]) -> float:
    """The largest at which 80 % of the runs of a cluster that is left out lie in the others' bands."""
    clusters = list(dict.fromkeys(one.cluster for one in ratios))
    if len(clusters) < 2:
        return _ONE_CLUSTER
    return next((tail for tail in _TAILS if _held_elsewhere(ratios, clusters, tail) >= _HELD), _TAILS[-1])


def _held_elsewhere(ratios: Sequence[_Ratio], clusters: Sequence[tuple[str, str]], tail: float) -> float:
    """How many runs lie in the bands of the other clusters, as a share: of a cluster on average, or of all if fewer."""
    held: dict[tuple[str, str], list[bool]] = {}
    for cluster in clusters:
        bands = _bands([one for one in ratios if one.cluster != cluster], tail)
        held[cluster] = [_is_held(one, bands) for one in ratios if one.cluster == cluster]
    return min(mean(map(mean, held.values())), mean(one for each in held.values() for one in each))
