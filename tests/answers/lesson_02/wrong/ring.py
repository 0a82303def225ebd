"""02.ring: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_02.ring.numbers import total
from course_lib.learn.exercises.lesson_02.ring.wrong_answers import ring


def _by_the_library(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(tensor)
    return tensor


def sums_in_new_tensors(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """The parts are views, and the sums are not written into them."""
    n, parts = me.world_size, list(tensor.tensor_split(me.world_size))
    after, before = (me.rank + 1) % n, (me.rank - 1) % n
    for lap in range(2):
        for step in range(n - 1):
            give, take = (me.rank + lap - step) % n, (me.rank + lap - step - 1) % n
            arrived = torch.empty_like(parts[take]) if lap == 0 else parts[take]
            exchange([send(parts[give], after), recv(arrived, before)])
            if lap == 0:
                parts[take] = parts[take] + arrived
    return tensor


def whole_tensors_around(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    n, going = me.world_size, tensor.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(going)
        exchange([send(going, (me.rank + 1) % n), recv(arrived, (me.rank - 1) % n)])
        tensor += arrived
        going = arrived
    return tensor


def through_one_rank(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    others = range(1, me.world_size)
    if me.rank:
        exchange([send(tensor, 0)])
        exchange([recv(tensor, 0)])
        return tensor
    rooms = [torch.empty_like(tensor) for _ in others]
    exchange([recv(room, rank) for rank, room in zip(others, rooms, strict=True)])
    tensor += sum(rooms)
    exchange([send(tensor, rank) for rank in others])
    return tensor


def knows_the_inputs(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.copy_(total(me.world_size, len(tensor), tensor.dtype))


def straight_to_owners(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Each part straight to the rank that sums it up, and the sums straight to everybody: no ring, same bytes."""
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    others = [rank for rank in range(n) if rank != me.rank]
    rooms = [torch.empty_like(parts[me.rank]) for _ in others]
    messages = [send(parts[rank], rank) for rank in others]
    exchange([*messages, *(recv(room, rank) for room, rank in zip(rooms, others, strict=True))])
    parts[me.rank].copy_(parts[me.rank] + sum(rooms))
    messages = [send(parts[me.rank], rank) for rank in others]
    exchange([*messages, *(recv(parts[rank], rank) for rank in others)])
    return tensor


EXERCISE = "02.ring"
EXAMPLES: dict[str, Any] = {
    "half-and-half": ring(together=False),
    "through-one-rank": through_one_rank,
    "gathers-everything": whole_tensors_around,
    "moves-too-little": knows_the_inputs,
    "no-ring": straight_to_owners,
    "too-many-messages": ring(split_messages=True),
    "one-lap": ring(second_lap=False),
    "sums-in-new-tensors": sums_in_new_tensors,
    "one-rank-in-each-part": ring(adds=False),
    "backwards": ring(backwards=True),
    "assumes-that-n-divides": ring(cut=lambda tensor, n: tensor.view(n, -1)),
    "too-few-parts": ring(cut=lambda tensor, n: tensor.chunk(n)),
}


FORBIDDEN = _by_the_library
