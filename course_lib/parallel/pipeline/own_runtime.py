"""Any runtime of schedules, a learner's too, run on real ranks at a given pace, and told as a trace.

The stages note when they compute, so nothing is asked of the runtime but that it executes its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.parallel.pipeline.measured import from_zero, middle_one
from course_lib.parallel.pipeline.paced_stage import can_be_paced
from course_lib.schedules.action import Action
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan, ScheduleTrace
from course_lib.schedules.validation import check

__all__ = ["run_runtime"]

_Notes = dict[Action, tuple[float, float]]  # from, to; a whole backward is noted as its halves


def run_runtime(
    cluster: Cluster, runtime: Callable[..., Any], schedule: Schedule, times: StageTimes, *, steps: int = 3
) -> ScheduleTrace:
    """One step of ``runtime(me, stages, schedule, loss_of, room).step(inputs, targets)``: the median one of ``steps``.

    The interface is that of ``GivenStages``. Each stage waits as ``times`` say, in seconds. Spans count from the start
    of the first action. Raises ValueError for a schedule that cannot run, times that cannot be paced, a cluster of
    another size, and where the runtime has not run an action of its row.
    """
    check(schedule)
    at_least(1, steps=steps)
    can_be_paced(times)
    if cluster.world_size != schedule.num_ranks:
        raise ValueError(
            f"{schedule.name!r} got {cluster.world_size} ranks, and it has {schedule.num_ranks}; give it "
            f"{schedule.num_ranks}."
        )
    by_rank = cluster.call(_timed_steps, (runtime, schedule, times, steps), show=False)
    return middle_one([_trace(schedule, notes) for notes in zip(*by_rank, strict=True)])


def _timed_steps(
    me: Rank, runtime: Callable[..., Any], schedule: Schedule, times: StageTimes, num_steps: int
) -> list[_Notes]:
    """On each rank: when its stages computed, of each step."""
    notes: _Notes = {}
    own = {stage: _TimedStage(me, schedule, stage, times, notes) for stage in schedule.stages_of_rank[me.rank]}
    count = schedule.num_micro_batches

    def room(_stage: int, _i: int) -> Tensor:
        return torch.empty(1, 1, device=me.device)

    def loss_of(output: Tensor, _target: Tensor) -> Tensor:
        return output.mean()

    pipeline = runtime(me, own, schedule, loss_of, room)
    found = []
    for _ in range(num_steps + 1):  # the first pays for what a first step pays
        # Inputs that want a gradient: the first stage's backward has two halves as well.
        inputs = [torch.zeros(1, 1, device=me.device, requires_grad=True) for _ in range(count)]
        targets = [torch.zeros(1, 1, device=me.device) for _ in range(count)]
        notes.clear()
        for stage in own.values():
            stage.num_run = 0
        dist.barrier()
        pipeline.step(inputs if 0 in own else None, targets if schedule.num_stages - 1 in own else None)
        found.append(dict(notes))
    return found[1:]


class _TimedStage(nn.Module):
    """x -> x + mean(weight), which waits as ``times`` say and notes when. x: (1, 1)."""

    def __init__(self, me: Rank, schedule: Schedule, stage: int, times: StageTimes, notes: _Notes) -> None:
        super().__init__()
        self.me, self.stage, self.times, self.notes, self.num_run = me, stage, times, notes, 0
        row = schedule.rows[me.rank]
        self.order = [one.micro_batch for one in row if (one.kind, one.stage) == ("F", stage)]
        self.weight = nn.Parameter(torch.ones(1, device=me.device))

    def forward(self, x: Tensor) -> Tensor:
        i = self.order[self.num_run % len(self.order)]
        self.num_run += 1
        self.wait(Action("F", self.stage, i), self.times.forward_s)
        x = _Timed.apply(x, self, Action("I", self.stage, i), self.times.input_s)
        return x + _Timed.apply(self.weight.mean(), self, Action("W", self.stage, i), self.times.weight_s)

    def wait(self, action: Action, time_s: float) -> None:
        began_s = time.perf_counter()
        pace(self.me, time_s)
        self.notes[action] = (began_s, time.perf_counter())


class _Timed(torch.autograd.Function):
    """The identity, whose backward takes its time and is noted."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stage: _TimedStage, action: Action, time_s: float) -> Tensor:
        ctx.noted = stage, action, time_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        stage, action, time_s = ctx.noted
        stage.wait(action, time_s)
        return gradients[0], None, None, None


def _trace(schedule: Schedule, notes: Sequence[_Notes]) -> ScheduleTrace:
    rows = [
        tuple(ActionSpan(rank, action, *_when(rank, action, noted)) for action in schedule.rows[rank])
        for rank, noted in enumerate(notes)
    ]
    return from_zero(schedule, rows)


def _when(rank: int, action: Action, noted: _Notes) -> tuple[float, float]:
    halves = [action._replace(kind=kind) for kind in ("IW" if action.kind == "B" else action.kind)]
    missing = [one for one in halves if one not in noted]
    if missing:
        raise ValueError(f"rank {rank} has not run {action}, which stands in its row; run every action of the row.")
    return min(noted[one][0] for one in halves), max(noted[one][1] for one in halves)
