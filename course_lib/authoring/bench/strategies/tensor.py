"""``course bench tensor``: a transformer block cut in two by the course, and by PyTorch's DTensor, in turns.

The same block, the same input, forward and backward, within one run; the order alternates from round to round, and a
round's time is that of the slowest rank. DTensor's plan is the usual one (a ``PrepareModuleInput`` before attention and
MLP), so both sides send the same: two all-reduces forward and two backward. The promise: at most 0.9 of DTensor's time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter.clocks.stopwatch import Comparison

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle

__all__ = ["block_plan", "dtensor_block", "main", "paired"]

_PROMISED_SHARE = 0.9  # of DTensor's time
_NUM_RANKS = 2
_BATCH_SIZE = 2
_SIZES = ((128, 128), (256, 128))  # width and length; the first is the promise's, that of the course's model


def main(arguments: list[str]) -> int:
    options = bench_parser("tensor", __doc__, rounds=40, of="pairs of measurements").parse_args(arguments)
    with open_table(options) as table, Cluster(_NUM_RANKS, timeout_s=600) as cluster:
        for width, length in _SIZES:
            for sequence_parallel in (False, True):
                add_rows(table, cluster, width, length, sequence_parallel, options.rounds)
    return 0


def add_rows(table: Table, cluster: Cluster, width: int, length: int, sequence_parallel: bool, rounds: int) -> None:
    """Three lines: the time by DTensor, the time by the course, and the ratio of the paired times."""
    both: Comparison = cluster.call(paired, (width, length, sequence_parallel, rounds), show=False)[0]
    where = f"block {width} wide, {length} tokens" + (", sequence parallel" if sequence_parallel else "")
    is_promised = (width, length) == _SIZES[0] and not sequence_parallel
    target = _PROMISED_SHARE if is_promised else None
    table.add_pair(where, both, ratio="course / DTensor", target=target)


def paired(me: Rank, width: int, length: int, sequence_parallel: bool, rounds: int) -> Comparison:
    """On each rank: forward and backward of one block by DTensor and by the course, in turns."""
    import torch

    from course_lib.models import TransformerBlock, TransformerConfig
    from course_lib.parallel.tensor import split_block

    torch.manual_seed(0)
    config = TransformerConfig(width=width, context_length=length, num_heads=4)
    whole = TransformerBlock(config)
    theirs = dtensor_block(me, copy.deepcopy(whole), sequence_parallel=sequence_parallel)
    ours = split_block(me, whole, sequence_parallel=sequence_parallel)
    rows = length // me.world_size if sequence_parallel else length
    x = torch.randn(_BATCH_SIZE, rows, width, device=me.device, requires_grad=True)
    return compare_on_ranks(
        _step(theirs, x),
        _step(ours, x),
        names=("DTensor", "the course"),
        rounds=rounds,
        warmup=5,
        device=me.device,
    )


def dtensor_block(me: Rank, block: nn.Module, *, sequence_parallel: bool = False) -> nn.Module:
    """The block cut among all ranks by ``parallelize_module``."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import parallelize_module

    mesh = init_device_mesh(me.device.type, (me.world_size,))
    return parallelize_module(block.to(me.device), mesh, block_plan(sequence_parallel=sequence_parallel))


def block_plan(*, sequence_parallel: bool = False) -> dict[str, ParallelStyle]:
    """How ``parallelize_module`` is to cut a block: the plan that PyTorch's own examples follow."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
    )

    outside = Shard(1) if sequence_parallel else Replicate()  # of (B, T, D): positions
    enter = PrepareModuleInput(input_layouts=outside, desired_input_layouts=Replicate())
    plan: dict[str, ParallelStyle] = {
        "attention": enter,
        "attention.w_q": ColwiseParallel(),
        "attention.w_k": ColwiseParallel(),
        "attention.w_v": ColwiseParallel(),
        "attention.w_out": RowwiseParallel(output_layouts=outside),
        "mlp": enter,
        "mlp.w_up": ColwiseParallel(),
        "mlp.w_down": RowwiseParallel(output_layouts=outside),
    }
    if sequence_parallel:
        plan |= {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
    return plan


def _step(block: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """Forward and backward, from gradients that were set to none."""

    def step() -> None:
        block.zero_grad()
        x.grad = None
        block(x).sum().backward()

    return step
