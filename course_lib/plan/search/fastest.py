"""The fastest layout of a job on a cluster, and no other: what is asked of clusters of other sizes."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.base.checked import checked_before
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

    Layouts are tried in the order of what they take at least, until that is more than the fastest so far takes.
    """
    limit_bytes = usable_bytes(cluster, memory_bytes)
    memo = Memo()
    best: Option | None = None
    with checked_before():
        legal = [layout for layout in layouts if not why_illegal(job, layout, cluster.gpus)]
        least = [least_step_s(job, one, cluster, constants, software, memo) for one in legal]
        for number in sorted(range(len(legal)), key=least.__getitem__):
            if best is not None and least[number] > _TIE * best.step_s:
                break
            layout = legal[number]
            memory = memory_parts(job, layout, cluster, constants, software, memo)
            if memory.total_bytes <= limit_bytes:
                step = step_parts(job, layout, cluster, constants, software, memo)
                option = Option(layout, memory, step)
                best = option if best is None else min(best, option, key=rank_of)
    return Listing(job, cluster, () if best is None else (best,), ())
