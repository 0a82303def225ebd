"""What to do about a listing: when fewer GPUs are the better answer, and what is nearest where nothing runs."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.plan.cluster import Cluster
from course_lib.plan.listing import Listing

__all__ = ["advise"]

_AS_FAST = 0.97  # of the speed on all GPUs: what fewer must reach to be called the better answer
_WASTE = 0.6  # of the speed by GPU on fewer: below this the loss is told
_MOST_GPUS = 1 << 15

Lister = Callable[[Cluster, bool], Listing]


def advise(listing: Listing, lister: Lister) -> list[str]:
    """Sentences; none where the whole cluster is well used. ``lister(cluster, offload)`` lists on another cluster."""
    if listing.best is None:
        return _nearest_possible(listing, lister)
    return _fewer(listing, lister)


def _sizes_below(cluster: Cluster) -> list[int]:
    """Halves of the cluster in whole machines, then of one machine, the largest first."""
    sizes, gpus = [], cluster.gpus
    while gpus > 1:
        gpus = gpus // 2
        if gpus > cluster.node_size:
            gpus -= gpus % cluster.node_size
        sizes.append(gpus)
    return sizes


def _fewer(listing: Listing, lister: Lister) -> list[str]:
    assert listing.best is not None
    tokens, whole = listing.job.tokens, listing.cluster.gpus
    speed = tokens / listing.best.step_s
    smallest, by_gpu = None, None
    for gpus in _sizes_below(listing.cluster)[:6]:
        found = lister(listing.cluster.with_gpus(gpus), False).best
        if found is None:
            break
        reached = tokens / found.step_s
        by_gpu = by_gpu or (gpus, reached / gpus)
        if reached >= _AS_FAST * speed:
            smallest = (gpus, found.layout, reached)
    if smallest:
        gpus, layout, reached = smallest
        return [
            f"Fewer GPUs are the better answer: {gpus} reach {reached / speed:.0%} of the speed of {whole} ({layout})."
        ]
    if by_gpu and speed / whole < _WASTE * by_gpu[1]:
        return [
            f"By GPU {by_gpu[0]} would do more: {by_gpu[1]:,.0f} tokens/s each, and of {whole} each does "
            f"{speed / whole:,.0f}. A larger batch gives them work."
        ]
    return []


def _nearest_possible(listing: Listing, lister: Lister) -> list[str]:
    cluster, said = listing.cluster, []
    if listing.nearest is not None:
        said.append(
            f"Nearest was {listing.nearest.layout}: {listing.nearest.why}; {listing.nearest.instead}."
        )
    offloaded = lister(cluster, True).best
    if offloaded is not None:
        said.append(f"With --offload it runs: {offloaded.layout}, {offloaded.step_s:.3g} s a step.")
    for gpus in _sizes_above(cluster) if listing.nearest is not None else _sizes_below(cluster):
        found = lister(cluster.with_gpus(gpus), False).best
        if found is not None:
            said.append(f"The nearest number of GPUs on which it runs is {gpus}: {found.layout}.")
            break
    if listing.nearest is None:
        said.append(
            f"A rank of the data axis needs a sequence: give a batch that the ranks divide, {cluster.gpus} for one "
            "sequence each."
        )
    return said


def _sizes_above(cluster: Cluster) -> list[int]:
    sizes, gpus = [], cluster.gpus
    while (gpus := gpus * 2) <= _MOST_GPUS:
        sizes.append(gpus)
    return sizes
