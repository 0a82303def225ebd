"""What shapes will be sent between stages: found out once, before the first batch, so that receivers can make room.

A receiver must know the shape of what it gets before it gets it. So the stages are tried out in their order, each on
zeros of the shapes that the one before announced: one more forward for each size of micro-batch, whose result is
thrown away. Buffers and random numbers are left as they were. (``torch.distributed.pipelining`` does the same.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.model.cutting import buffers_kept
from course_lib.parallel.model.stage_p2p import TensorSpec
from course_lib.parallel.pipeline.stage_run import StageFailed, StageRun
from course_lib.parallel.pipeline.wrapped import DefersReduction
from course_lib.schedules.table import Schedule

__all__ = ["find_shapes"]

_SPEC_NUMEL = len(TensorSpec((), torch.float32, needs_gradient=False).numbers())


def find_shapes(
    me: Rank, schedule: Schedule, stages: Mapping[int, StageRun], ranks: Sequence[int]
) -> dict[tuple[int, int], TensorSpec]:
    """What each stage on this rank passes on, and each stage before one on this rank, by (stage, micro-batch).

    ``stages`` are those of this rank; stage 0 has its inputs. One message goes from the rank of each stage to the rank
    of the next, with what it passes on of every micro-batch.
    """
    specs: dict[tuple[int, int], TensorSpec] = {}
    numbers = range(schedule.num_micro_batches)
    for stage in range(schedule.num_stages - 1):
        here, next_ = (ranks[schedule.rank_of_stage[s]] for s in (stage, stage + 1))
        if me.rank == here:
            run = stages[stage]
            entering = [specs[stage - 1, i] if stage else _spec_of(run.inputs[i]) for i in numbers]
            leaving = {each: _try_out(me, run, each) for each in _to_try(run, entering)}
            specs |= {(stage, i): leaving[entering[i]] for i in numbers}
            if next_ != here:
                lines = [specs[stage, i].numbers() for i in numbers]
                exchange([send(torch.tensor(lines, device=me.device), next_)])
        elif me.rank == next_:
            room = torch.empty(len(numbers), _SPEC_NUMEL, dtype=torch.int64, device=me.device)
            exchange([recv(room, here)])
            specs |= {(stage, i): TensorSpec.of(line) for i, line in enumerate(room.tolist())}
    return specs


def _to_try(run: StageRun, entering: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Each shape once: of micro-batches that are cut as evenly as can be, one or two.

    A stage in a wrapper calls collectives in its forward, and the ranks that it calls may have another number of
    samples, which divides where this one's does not. So all of them try twice.
    """
    shapes = list(dict.fromkeys(entering))
    return (shapes * 2)[:2] if isinstance(run.module, DefersReduction) else shapes


def _try_out(me: Rank, run: StageRun, entering: TensorSpec) -> TensorSpec:
    """What a stage makes of an input of this shape."""
    x = torch.zeros(entering.shape, dtype=entering.dtype, device=me.device)
    devices = [me.device] if me.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices), buffers_kept(run.module):
            return _spec_of(run.module(x.requires_grad_(entering.needs_gradient)))
    except Exception as error:
        raise StageFailed(
            f"stage {run.stage} failed in a trial on zeros of shape {entering.shape}, before the first micro-batch: "
            f"{type(error).__name__}: {error}"
        ) from error


def _spec_of(x: Tensor) -> TensorSpec:
    if not isinstance(x, Tensor):
        raise TypeError(f"it returned a {type(x).__name__}; a stage gives the next one a single tensor")
    return TensorSpec(tuple(x.shape), x.dtype, x.requires_grad)
