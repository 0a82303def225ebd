"""What to do about a listing: when fewer GPUs are the better answer, and what is nearest where nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.search.budget import Budget
from course_lib.plan.search.listing import Listing

__all__ = ["Lister", "advise", "can_hold"]

_AS_FAST = 1.03  # times as fast: what all GPUs must reach over fewer, or the fewer are as good
_DEAR = 1.5  # times the GPU hours for the same tokens: from here on the gain has a price that is told
_CHEAPEST = 1.05  # times the least GPU hours: sizes within it count as equally cheap, and no smaller one is tried
_MOST_SIZES = 6  # smaller clusters that are looked at
_THOUSANDS = 2048  # GPUs: beyond, each listing is of ten thousand layouts and takes most of a second
_MOST_GPUS = 1 << 15
_STATE_BYTES = 16  # of a parameter at least: weight and gradient in two bytes, master copy and two moments in four

Lister = Callable[[ClusterSpec, bool], Listing]


def advise(listing: Listing, lister: Lister, budget: Budget | None = None) -> list[str]:
    """Sentences; none where the whole cluster is well used. ``lister(cluster, offload)`` lists on another cluster."""
    if listing.best is None:
        return _nearest_possible(listing, lister)
    if budget is not None and not budget.is_in_time(listing):
        return _in_time(listing, lister, budget)
    return [*_batch(listing), *_fewer(listing, lister)]


def _sizes_below(cluster: ClusterSpec) -> list[int]:
    """Halves of the cluster (quarters of thousands) in whole machines, then of one machine, the largest first."""
    sizes, gpus = [], cluster.gpus
    while gpus > 1:
        gpus = gpus // 4 if gpus > _THOUSANDS else gpus // 2
        if gpus > cluster.node_size:
            gpus -= gpus % cluster.node_size
        sizes.append(gpus)
    return sizes


def _sizes_above(cluster: ClusterSpec) -> Iterator[int]:
    gpus = cluster.gpus
    while (gpus := gpus * 2) <= _MOST_GPUS:
        if gpus > cluster.node_size:
            gpus = -(-gpus // cluster.node_size) * cluster.node_size
        yield gpus


def _fewer(listing: Listing, lister: Lister) -> list[str]:
    """Fewer GPUs, where all of them are hardly faster, or cost half as much again for the same tokens."""
    assert listing.best is not None
    whole, step_s = listing.cluster.gpus, listing.best.step_s
    found: dict[int, Listing] = {}
    hours = whole * step_s
    for gpus in _sizes_below(listing.cluster)[:_MOST_SIZES]:
        smaller = lister(listing.cluster.with_gpus(gpus), False)
        if smaller.best is None:
            break
        found[gpus] = smaller
        before, hours = hours, gpus * smaller.best.step_s
        if before <= _CHEAPEST * hours:  # this half saves little, and the next would save less
            break
    seconds = {gpus: one.best.step_s for gpus, one in found.items() if one.best is not None}
    if not seconds:
        return []
    least = min(gpus * each for gpus, each in seconds.items())
    cheap = max(gpus for gpus, each in seconds.items() if gpus * each <= _CHEAPEST * least)
    gain, price = seconds[cheap] / step_s, whole * step_s / (cheap * seconds[cheap])
    if gain > _AS_FAST and price >= _DEAR:
        return [
            f"{_answer(cheap)}, unless only time counts. For the same tokens {whole} are {gain:.2f} times as fast as "
            f"{cheap}, and cost {price:.1f} times the GPU hours. With {cheap}: {_layout(found[cheap])}. A larger "
            f"batch would give all {whole} more work."
        ]
    as_fast = [gpus for gpus in seconds if seconds[gpus] <= _AS_FAST * step_s]
    if not as_fast:
        return []
    gpus = min(as_fast)
    return [
        f"{_answer(gpus)}: {gpus} {_reach(gpus)} {step_s / seconds[gpus]:.0%} of the speed of {whole} "
        f"({_layout(found[gpus])})."
    ]


def _answer(gpus: int) -> str:
    return "One GPU is the better answer" if gpus == 1 else "Fewer GPUs are the better answer"


def _reach(gpus: int) -> str:
    return "reaches" if gpus == 1 else "reach"


def _layout(listing: Listing) -> str:
    return str(listing.best.layout) if listing.best is not None else ""


def _in_time(listing: Listing, lister: Lister, budget: Budget) -> list[str]:
    """The nearest number of GPUs that ends within the days, as it is listed, not as it is divided."""
    assert listing.best is not None
    assert budget.days is not None
    took = budget.of(listing, listing.best)["days"]
    said = f"The fastest takes {_days(took)}, and {budget.days:g} were asked for"
    best_days, best_gpus = took, listing.cluster.gpus
    for gpus in _sizes_above(listing.cluster):
        larger = lister(listing.cluster.with_gpus(gpus), False)
        if larger.best is None:
            continue
        days = budget.of(larger, larger.best)["days"]
        if days <= budget.days:
            return [f"{said}: {gpus:,} GPUs take {_days(days)} ({larger.best.layout})."]
        if days > 0.99 * best_days:  # more of them gain nothing: the batch is used up
            break
        best_days, best_gpus = days, gpus
    return [
        f"{said}: with this batch no number of GPUs is fast enough. The nearest is {_days(best_days)}, with "
        f"{best_gpus:,} GPUs. Take a larger batch, which could use more GPUs, or fewer tokens."
    ]


def _days(days: float) -> str:
    return f"{days:,.0f} days" if days >= 100 else f"{days:.3g} days"


def can_hold(job: Job, cluster: ClusterSpec) -> bool:
    """Whether the GPUs together could hold weights, gradients and states, 16 bytes a parameter, and nothing else."""
    return _STATE_BYTES * job.model.parameters <= cluster.gpus * cluster.memory_bytes


def _nearest_possible(listing: Listing, lister: Lister) -> list[str]:
    cluster, nearest, said = listing.cluster, listing.nearest, []
    if not listing.refusals:
        job = listing.job
        said.append(
            f"{job.batch:,} sequences of {job.seq:,} tokens and {job.model.layers} layers are too few to share out "
            f"among {cluster.gpus:,} GPUs: no layout gives each GPU work."
        )
    if nearest is not None and nearest.memory is not None:
        said.append(f"The nearest was {nearest.layout}: {nearest.why}. To make it fit: {nearest.instead}.")
    offloaded = lister(cluster, True).best
    if offloaded is not None:
        said.append(f"With --offload it runs: {offloaded.layout}, {three_digits(offloaded.step_s)} s a step.")
    for gpus in _sizes_above(cluster) if nearest is not None else _sizes_below(cluster):
        if nearest is not None and not can_hold(listing.job, cluster.with_gpus(gpus)):
            continue  # nothing runs there, whatever the layout
        found = lister(cluster.with_gpus(gpus), False).best
        if found is not None:
            said.append(
                f"The nearest number of GPUs on which it runs is {gpus:,}: {found.layout}, "
                f"{three_digits(found.step_s)} s a step."
            )
            break
    else:
        if nearest is not None:
            said.append(
                f"It does not fit with more GPUs either, up to {_MOST_GPUS:,}. Take GPUs with more memory, or a "
                "shorter sequence."
            )
    if nearest is None and listing.refusals:
        said.append(f"{listing.refusals[0].layout}: {listing.refusals[0].why}.")
    return said


def _batch(listing: Listing) -> list[str]:
    """A batch that the GPUs do not divide leaves them few layouts: the nearest ones that they do."""
    batch, gpus = listing.job.batch, listing.cluster.gpus
    if gpus == 1 or batch % gpus == 0 or (batch < gpus and gpus % batch == 0):
        return []
    if batch < gpus:
        return [
            f"A batch of {batch} cannot be shared out evenly among {gpus} GPUs. A batch of {gpus} would give "
            "each GPU one sequence."
        ]
    low, high = batch // gpus * gpus, -(-batch // gpus) * gpus
    return [
        f"{gpus} GPUs do not divide a batch of {batch}, so few sizes of the data axis are possible. A batch of {low} "
        f"or {high} allows all of them."
    ]
