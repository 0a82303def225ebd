"""Usual wrong answers to 02.ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_02.ring.numbers import total

__all__ = [
    "knows_the_inputs",
    "ring",
    "straight_to_owners",
    "sums_in_new_tensors",
    "through_one_rank",
    "whole_tensors_around",
]


def ring(
    *,
    adds: bool = True,
    backwards: bool = False,
    together: bool = True,
    second_lap: bool = True,
    adds_in_second: bool = False,
    extra: int = 0,
    same_part: bool = False,
    cut: Callable[[torch.Tensor, int], Any] = lambda tensor, n: tensor.tensor_split(n),
    split_messages: bool = False,
) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """A ring, right but for what the arguments change."""

    def all_reduce(me: Any, tensor: torch.Tensor) -> torch.Tensor:
        n, parts = me.world_size, cut(tensor, me.world_size)
        after, before = (me.rank + 1) % n, (me.rank - 1) % n
        after, before = (before, after) if backwards else (after, before)

        def swap(give: torch.Tensor, take: torch.Tensor) -> None:
            for piece, room in zip(*(t.tensor_split(2) if split_messages else (t,) for t in (give, take)), strict=True):
                halves = [send(piece, after), recv(room, before)]
                for messages in [halves] if together else [[half] for half in halves]:
                    exchange(messages)

        for step in range(n - 1 + extra):
            give, own = parts[(me.rank - step) % n], parts[(me.rank - step - (0 if same_part else 1)) % n]
            arrived = torch.empty_like(own if not same_part else parts[(me.rank - step - 1) % n])
            swap(give, arrived)
            if arrived.shape == own.shape:
                own.copy_(own + arrived if adds else arrived)
        for step in range(n - 1 if second_lap else 0):
            give, room = (
                parts[(me.rank + 1 - step) % n],
                parts[(me.rank - step) % n],
            )
            arrived = torch.empty_like(room)
            swap(give, arrived)
            room.copy_(room + arrived if adds_in_second else arrived)
        return tensor

    return all_reduce


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
