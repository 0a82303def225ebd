"""The fastest layout of a job on a cluster, and no other: what is asked of clusters of other sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from course_lib.base.checked import checked_before
from course_lib.plan.estimate.host_doubt import HostDoubt
from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.memory import memory_parts
from course_lib.plan.estimate.step_time import least_step_s, step_parts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software
from course_lib.plan.search.constraints import why_illegal
from course_lib.plan.search.listing import Listing, Option, rank_of, usable_bytes

__all__ = ["list_fastest"]

_TIE = 1.01  # times to three digits are ranked as equal; whatever may be within is looked at


def list_fastest(
    job: Job,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    *,
    layouts: Iterable[Layout],
    memory_bytes: float | None = None,
) -> Listing:
    """A listing whose one option is the first that ``list_layouts`` has; none where nothing runs.

    Layouts are tried in the order of what they take at least, until that is more than the fastest so far takes. Layouts
    that share out states in other ways take as long at least, so this is asked once for all of them.
    """
    limit_bytes = usable_bytes(cluster, memory_bytes)
    memo, alike = Memo(), defaultdict(list)
    best: Option | None = None
    with checked_before():
        for layout in layouts:
            alike[_least_of(layout)].append(layout)
        least = {key: least_step_s(job, ones[0], cluster, constants, software, memo) for key, ones in alike.items()}
        for key in sorted(least, key=least.__getitem__):
            if best is not None and least[key] > _TIE * best.step_s:
                break
            for layout in alike[key]:
                if why_illegal(job, layout, cluster.gpus):
                    continue
                memory = memory_parts(job, layout, cluster, constants, software, memo)
                if memory.total_bytes <= limit_bytes:
                    step = step_parts(job, layout, cluster, constants, software, memo)
                    option = Option(layout, memory, step)
                    best = option if best is None else min(best, option, key=rank_of)
    found = () if best is None else (best,)
    return Listing(job, cluster, found, (), HostDoubt(job, cluster, constants, software))


def _least_of(layout: Layout) -> tuple[object, ...]:
    """What ``least_step_s`` looks at; of sharding it is whether gradients add up on the rank."""
    axes = layout.tp, layout.cp, layout.pp, layout.dp, layout.ep, layout.etp
    ways = layout.micro_batch, layout.chunks, layout.recompute, layout.sequence_parallel, layout.sharding < 2
    return *axes, *ways
