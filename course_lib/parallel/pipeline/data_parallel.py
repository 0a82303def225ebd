"""Pipelines side by side: several copies of a pipeline, each fed with its own part of the batch.

Ranks that hold the same stages average their gradients, once for a batch: after the last micro-batch, not after each.
A micro-batch's gradients are added to those before it without a message, so waiting until the end sends ``1/m`` of the
bytes. On 4 ranks, two pipelines of two stages::

    pairs = [[0, 1], [2, 3]]                        # pipelines
    groups = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]     # the same stages; made on all ranks
    pipeline = Pipeline(me, stages, schedule, loss_of, ranks=pairs[me.rank // 2])
    pipeline.step(x, y)
    average_gradients(pipeline, groups[me.rank % 2])         # these two lines are ``joint_step``
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.replica_check import check_once
from course_lib.parallel.pipeline.runtime import Pipeline

__all__ = ["average_gradients", "joint_step"]


def average_gradients(pipeline: Pipeline, group: dist.ProcessGroup | None = None) -> None:
    """After ``step``: every gradient becomes its mean over the ranks of ``group`` (default: all), by one all-reduce.

    The ranks of the group hold the same stages, and compare them at the first call, at no later one. All gradients
    travel in one flat tensor, one for each dtype; a parameter without a gradient counts as zero, and gets the mean too.
    Equal to one batch over all pipelines where each was given as many samples. ``ValueError`` for a group in which two
    ranks are of one pipeline, and for stages that differ.
    """
    one_pipeline = getattr(pipeline, "ranks", ())  # whatever has stages may be given
    if len(both := {*dist.get_process_group_ranks(group)} & {*one_pipeline}) > 1:
        raise ValueError(
            f"ranks {', '.join(map(str, sorted(both)))} of this group are in one pipeline, and hold different stages. "
            "Give a group of ranks that hold the same stages, one rank from each pipeline"
        )
    if isinstance(pipeline, Pipeline):
        members = Members.of(pipeline.me, group)
        check_once(pipeline.me, members, "average_gradients", pipeline.named_parameters())
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for parameter in pipeline.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            by_dtype.setdefault(parameter.dtype, []).append(parameter.grad)
    for gradients in by_dtype.values():
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


def joint_step(
    pipeline: Pipeline, x: torch.Tensor, y: torch.Tensor, group: dist.ProcessGroup | None = None
) -> torch.Tensor | None:
    """One batch over several pipelines: ``pipeline.step`` on this one's part of it, then the mean of the gradients.

    ``group`` holds the ranks with the same stages (default: all). Returns what ``step`` returns: the loss of this
    pipeline's own part.
    """
    loss = pipeline.step(x, y)
    average_gradients(pipeline, group)
    return loss
