"""A schedule run on real ranks at a given pace, told in the words of the simulator.

Ranks, messages and order are real, computing is a timed wait (``PacedStage``), so the result can be laid over that of
``simulate`` with the same times: where they differ, the difference is what ranks and messages cost on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import at_least
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.parallel.pipeline.paced_stage import PacedStage, can_be_paced
from course_lib.parallel.pipeline.runtime import Pipeline
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan, ScheduleTrace
from course_lib.schedules.validation import check

__all__ = ["from_zero", "middle_one", "run_pipeline", "run_pipeline_steps"]


def run_pipeline(
    cluster: Cluster,
    schedule: Schedule,
    times: StageTimes | Sequence[StageTimes],
    *,
    link: Link | None = None,
    message_bytes: int = 4,
    steps: int = 3,
) -> ScheduleTrace:
    """One training step under ``schedule`` on the ranks of ``cluster``: of ``steps``, the one of median length.

    ``times`` are those of every stage, or one for each. ``link`` shapes what joins the ranks (default: the machine's
    own); a micro-batch's activations take ``message_bytes``, in whole float32 numbers. Where all ``times``
    say ``overlapped_s``, two actions that overlap run at the same time. Spans count from the start of
    the first action; there are no message spans. Raises ValueError for a schedule that cannot run, for times that are
    not as many as stages or cannot be paced, and for a cluster of another size than the schedule.
    """
    taken = run_pipeline_steps(cluster, schedule, times, link=link, message_bytes=message_bytes, steps=steps)
    return middle_one(taken)


def run_pipeline_steps(
    cluster: Cluster,
    schedule: Schedule,
    times: StageTimes | Sequence[StageTimes],
    *,
    link: Link | None = None,
    message_bytes: int = 4,
    steps: int = 3,
) -> list[ScheduleTrace]:
    """All the steps of which ``run_pipeline`` picks one, in their order."""
    check(schedule)
    at_least(1, steps=steps)
    at_least(4, message_bytes=message_bytes)
    each = [times] * schedule.num_stages if isinstance(times, StageTimes) else list(times)
    if len(each) != schedule.num_stages or cluster.world_size != schedule.num_ranks:
        raise ValueError(
            f"times for {len(each)} stages and {cluster.world_size} ranks were given to {schedule.name!r}, which has "
            f"{schedule.num_stages} stages on {schedule.num_ranks} ranks; give it as many."
        )
    for stage_times in each:
        can_be_paced(stage_times)
    with cluster.shaped(links=_links(link)):
        by_rank = cluster.call(_paced_steps, (schedule, each, message_bytes // 4, steps), show=False)
    return [from_zero(schedule, rows) for rows in zip(*by_rank, strict=True)]


def _paced_steps(
    me: Rank, schedule: Schedule, times: Sequence[StageTimes], width: int, num_steps: int
) -> list[tuple[ActionSpan, ...]]:
    """On each rank: what it did in each step."""
    overlap = all(each.overlapped_s is not None for each in times)
    pipeline = Pipeline(me, [PacedStage(me, each) for each in times], schedule, _mean, overlap=overlap)
    # The first stage's input wants a gradient, so that its backward has two halves as those of the others have.
    x = torch.zeros(schedule.num_micro_batches, width, device=me.device, requires_grad=True)
    pipeline.step(x, x)  # pays for what a first step pays, such as finding out shapes
    spans = []
    for _ in range(num_steps):
        dist.barrier()
        pipeline.step(x, x)
        spans.append(tuple(pipeline.spans))
    return spans


def _links(link: Link | None) -> Links:
    """On GPUs no host would wait for a message before it is paced: on the CPU it does, as shaped or not."""
    if link is None or link.time_s(1) == 0:
        return Links()
    return Links(link)


def _mean(output: Tensor, _: Tensor) -> Tensor:
    return output.mean()


def from_zero(schedule: Schedule, rows: Sequence[tuple[ActionSpan, ...]]) -> ScheduleTrace:
    """All moments from the start of the first action; the ranks of one machine share a clock."""
    began_s = min(span.start_s for row in rows for span in row)
    moved = tuple(
        tuple(span._replace(start_s=span.start_s - began_s, end_s=span.end_s - began_s) for span in row) for row in rows
    )
    return ScheduleTrace(schedule, moved, messages=(), overlap=True)


def middle_one(steps: Sequence[ScheduleTrace]) -> ScheduleTrace:
    """The step of median length."""
    return sorted(steps, key=lambda step: step.makespan_s)[len(steps) // 2]
