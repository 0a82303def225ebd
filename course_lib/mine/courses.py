"""The course's own functions under the names and with the parameters of the learner's: they stand in for these.

Each is an adapter of a few lines around what the course's library has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.mine.courses_of_cut_models import (
    MyExperts,
    MyJob,
    MyMeshTrainer,
    MyPipeline,
    MyPlanner,
    MyRingAttention,
    MySplitTransformer,
)

if TYPE_CHECKING:
    from course_lib.schedules import Schedule, StageTimes

__all__ = [
    "MyDDP",
    "MyDataParallel",
    "MyExperts",
    "MyFullySharded",
    "MyJob",
    "MyMeshTrainer",
    "MyPipeline",
    "MyPlanner",
    "MyRingAttention",
    "MyShardedOptimizer",
    "MySplitTransformer",
    "all_reduce",
    "average_gradients",
    "clip",
    "find_schedule",
    "indices_of",
    "my_share",
    "order_of_stage",
    "positions_of",
    "ring_all_reduce",
    "tree_broadcast",
]


def my_share(num_items: int, rank: int, world_size: int) -> range:
    """The items of ``rank``: a block of neighbours out of 0 .. num_items - 1, the first ranks one more."""
    from course_lib.parallel.collectives import split_sizes

    sizes = split_sizes(num_items, world_size)
    start = sum(sizes[:rank])
    return range(start, start + sizes[rank])


def ring_all_reduce(me: Rank, tensor: Tensor) -> Tensor:
    """The sum over all ranks of ``tensor`` (N,), in place, around a ring. Returns the tensor."""
    from course_lib.parallel.collectives import all_reduce

    return all_reduce(me, tensor, algorithm="ring", out=tensor)


def all_reduce(me: Rank, tensor: Tensor, group: Any = None) -> Tensor:
    """The sum over the ranks of ``group``, all by default, of ``tensor``, of any shape, in place. Returns it."""
    from course_lib.parallel import collectives

    is_small = tensor.numel() * tensor.element_size() <= 1024  # bytes, up to which messages are what counts
    whole = collectives.all_reduce(me, tensor, algorithm="tree" if is_small else "ring", group=group)
    return tensor.copy_(whole)


def tree_broadcast(me: Rank, tensor: Tensor) -> Tensor:
    """Rank 0's tensor, of any shape, on every rank, in place, along a tree. Returns the tensor."""
    from course_lib.parallel.collectives import broadcast

    return broadcast(me, tensor, out=tensor)


class MyDataParallel(nn.Module):
    """``module`` on several ``devices``, in one process, with a thread for each."""

    def __init__(self, module: nn.Module, devices: list[Any]) -> None:
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives for all rows."""
        from course_lib.parallel.data import DataParallel

        return DataParallel(self.module, self.devices)(*args, **kwargs)


def average_gradients(me: Rank, model: nn.Module) -> None:
    """After backward: every gradient becomes its mean over all ranks, in place; no gradient counts as zeros."""
    from course_lib.parallel.data import all_reduce_gradients

    all_reduce_gradients(me, model)


class MyDDP(nn.Module):
    """Wraps ``module`` so that after ``backward()`` every gradient is its mean over all ranks."""

    def __init__(
        self,
        module: nn.Module,
        me: Rank,
        bucket_bytes: int = 2**20,
        all_reduce: Callable[..., Any] = dist.all_reduce,
    ) -> None:
        super().__init__()
        from course_lib.parallel.data import DistributedDataParallel

        self.ddp: Any = DistributedDataParallel(
            me, module, bucket_size_bytes=bucket_bytes, first_bucket_size_bytes=bucket_bytes
        )
        if all_reduce is not dist.all_reduce:
            for bucket in self.ddp.buckets:
                bucket.start_average = partial(_Averaged, bucket.flat, me.world_size, all_reduce)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.ddp(*args, **kwargs)

    def no_sync(self) -> Any:
        """Within it nothing is sent, and gradients add up on this rank."""
        return self.ddp.no_sync()

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return self.ddp.state_dict(*args, **kwargs)


class _Averaged:
    """A mean over ranks in the making, by an all-reduce that was handed in."""

    def __init__(self, flat: Tensor, num_ranks: int, all_reduce: Callable[..., Any], group: Any = None) -> None:
        self._flat, self._num_ranks = flat, num_ranks
        self._work = all_reduce(flat, async_op=True)

    def wait(self) -> None:
        self._work.wait()
        self._flat /= self._num_ranks


class MyShardedOptimizer:
    """Steps as ``optimizer_class`` of one process would on the mean of all ranks' gradients; states are shared out."""

    def __init__(self, parameters: Iterable[nn.Parameter], optimizer_class: Any, me: Rank, **defaults: Any) -> None:
        from course_lib.parallel.sharded import ShardedOptimizer

        self.optimizer = ShardedOptimizer(me, parameters, optimizer_class, **defaults)
        self.param_groups = self.optimizer.param_groups

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def step(self) -> None:
        self.optimizer.step()


class MyFullySharded(nn.Module):
    """Computes as ``module`` would; each rank keeps 1/n of the numbers of each unit, and of what is in none."""

    def __init__(self, module: nn.Module, units: Iterable[nn.Module], me: Rank, prefetch: int = 1) -> None:
        super().__init__()
        from course_lib.parallel.sharded import FullySharded

        self.sharded: Any = FullySharded(me, module, list(units), prefetch=prefetch)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.sharded(*args, **kwargs)

    def full_state_dict(self) -> dict[str, Any]:
        """What ``state_dict()`` of the plain module would be, on every rank."""
        return self.sharded.full_state_dict()

    def load_full_state_dict(self, state: dict[str, Any]) -> None:
        """This rank's parts of a plain module's ``state_dict()``, and its buffers."""
        self.sharded.load_full_state_dict(state)

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scale the gradients of all ranks so that their norm is ``max_norm`` at most. Returns what it was, 0-d."""
        from course_lib.parallel.sharded.clipping import clip_shards

        return clip_shards(self.parameters(), max_norm, self.sharded.members)


def indices_of(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    """The indices that a rank reads in an epoch, as PyTorch's DistributedSampler gives them."""
    from course_lib.parallel.data import DistributedSampler

    return list(DistributedSampler(num_items, rank=rank, world_size=world_size, epoch=epoch, seed=seed))


def clip(me: Rank, shards: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients of ``shards``, in place, so that those of all ranks have norm ``max_norm`` at most.

    Returns what the norm was, 0-d.
    """
    from course_lib.parallel.collectives.members import Members
    from course_lib.parallel.sharded.clipping import clip_shards

    return clip_shards(shards, max_norm, Members.of(me, None))


def order_of_stage(stage: int, num_stages: int, num_micro_batches: int) -> list[str]:
    """What a stage does under 1F1B, in order: ["F0", "B0", "F1", "B1"] for the last."""
    from course_lib import schedules

    row: Any = schedules.one_f_one_b(num_stages, num_micro_batches).actions[stage]
    return [action.short for action in row if action is not None]


def find_schedule(times: Sequence[StageTimes], num_micro_batches: int, max_in_flight: int) -> Schedule:
    """A schedule of F, I and W for stages of these times, with at most ``max_in_flight`` micro-batches on a rank."""
    from course_lib import schedules

    return schedules.list_schedule(times, num_micro_batches, max_in_flight)


def positions_of(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """The positions of a rank in zigzag order, rising: an early run and a late one."""
    from course_lib.layouts.sequence_cut import SequenceCut

    return list(SequenceCut(num_tokens, num_ranks).positions(rank))
