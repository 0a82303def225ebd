"""How many GPUs: the fastest layout on each size of a cluster, and which size meets a wish."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.checks import at_least
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.search.advice import Lister, can_hold
from course_lib.plan.search.budget import Budget
from course_lib.plan.search.listing import Listing

__all__ = ["list_sizes", "pick", "size_table"]

_GAIN = 1.03  # times as fast: what more GPUs must bring to be worth a look


def list_sizes(
    cluster: ClusterSpec, most: int, job: Job, lister: Lister, budget: Budget, *, offload: bool = False
) -> list[Listing]:
    """Listings on 1, 2, 4 and so on GPUs, up to ``most``, beyond one machine in whole ones.

    It ends with the first that meets the days that were asked for, or where more GPUs gain nothing. GPUs that cannot
    hold the model's states at all are passed over, unless states are with the host.
    """
    at_least(1, max_gpus=most)
    sizes, gpus = set(), 1
    while gpus <= most:
        sizes.add(gpus if gpus <= cluster.node_size else gpus // cluster.node_size * cluster.node_size)
        gpus *= 2
    sizes.add(most if most <= cluster.node_size else most // cluster.node_size * cluster.node_size)
    found: list[Listing] = []
    for size in sorted(sizes):
        here = cluster.with_gpus(size)
        if size != max(sizes) and not offload and not can_hold(job, here):
            continue
        found.append(lister(here, False))
        if _is_enough(found, budget):
            break
    return found


def _is_enough(found: Sequence[Listing], budget: Budget) -> bool:
    """Whether the last one ends in time; or, where no time was set, is no faster than the one before."""
    best = [one.best for one in found]
    if best[-1] is None:
        return False
    if budget.days is not None:
        return budget.is_in_time(found[-1])
    before = best[-2] if len(best) > 1 else None
    return before is not None and before.step_s <= _GAIN * best[-1].step_s


def pick(listings: Sequence[Listing], budget: Budget) -> Listing:
    """The fewest GPUs that end within the days, where days were asked for; else the fastest that more do not beat."""
    running = [one for one in listings if one.best is not None]
    if not running:
        return listings[-1]
    if budget.days is not None:
        in_time = [one for one in running if budget.is_in_time(one)]
        if in_time:
            return in_time[0]
    fastest_s = min(one.best.step_s for one in running if one.best is not None)
    return next(one for one in running if one.best is not None and one.best.step_s <= _GAIN * fastest_s)


def size_table(listings: Sequence[Listing], budget: Budget) -> str:
    """A line for each number of GPUs: its fastest layout, and what a step takes."""
    lines = [f"  {'GPUs':>7} {'step':>9} {'tokens/s':>12} {'by GPU':>8}{_heads(listings, budget)}  fastest layout"]
    for one in listings:
        gpus = one.cluster.gpus
        if one.best is None:
            nearest = one.nearest
            lines.append(f"  {gpus:7,} {'':>9} none runs{': ' + nearest.why + ' GB' if nearest else ''}")
            continue
        speed = one.job.tokens / one.best.step_s
        more = "".join(f" {three_digits(value):>11}" for value in budget.of(one, one.best).values())
        step = f"{three_digits(one.best.step_s):>7} s"
        lines.append(f"  {gpus:7,} {step} {speed:12,.0f} {speed / gpus:8,.0f}{more}  {one.best.layout}")
    return "\n".join(lines)


def _heads(listings: Sequence[Listing], budget: Budget) -> str:
    running = next((one for one in listings if one.best is not None), None)
    if running is None or running.best is None:
        return ""
    return "".join(f" {name.replace('energy_mwh', 'MWh'):>11}" for name in budget.of(running, running.best))
