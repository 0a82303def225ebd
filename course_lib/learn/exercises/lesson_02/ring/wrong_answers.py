"""Usual wrong answers to 02.ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send

__all__ = ["ring"]


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
