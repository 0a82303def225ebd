"""02.tree: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_02.tree import _reaches, _table, _tensor, _walk, _wide


def _star(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    if me.rank == 0:
        exchange([send(tensor, rank) for rank in range(1, me.world_size)])
    else:
        exchange([recv(tensor, 0)])
    return tensor


def _chain(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    if me.rank:
        exchange([recv(tensor, me.rank - 1)])
    if me.rank + 1 < me.world_size:
        exchange([send(tensor, me.rank + 1)])
    return tensor


def _floods(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Whoever has it sends it to everybody behind, whether they have it or not."""
    for source in range(me.world_size - 1):
        if me.rank == source:
            exchange([send(tensor, rank) for rank in range(source + 1, me.world_size)])
        elif me.rank > source:
            exchange([recv(tensor, source)])
    return tensor


def _knows_it(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    known = {torch.int64: _tensor, torch.float32: _table, torch.float64: _wide}
    return tensor.copy_(known[tensor.dtype](0))


def _two_children(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A binary tree: as quick as the doubling up to 6 ranks."""
    if me.rank:
        exchange([recv(tensor, (me.rank - 1) // 2)])
    exchange([send(tensor, child) for child in (2 * me.rank + 1, 2 * me.rank + 2) if child < me.world_size])
    return tensor


def _only_the_root_sends(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    for reach in _reaches(me.world_size):
        if me.rank == 0:
            exchange([send(tensor, reach)])
        elif me.rank == reach:
            exchange([recv(tensor, 0)])
    return tensor


def _by_the_library(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    dist.broadcast(tensor, 0)
    return tensor


EXERCISE = "02.tree"
EXAMPLES: dict[str, Any] = {
    "moves-too-little": _knows_it,
    "sent-twice": _floods,
    "star": _star,
    "chain": _chain,
    "two-children": _two_children,
    "wrong-order": _walk(lambda n: _reaches(n)[::-1]),
    "only-the-root-sends": _only_the_root_sends,
    "past-the-last-rank": _walk(_reaches, within=False),
}


FORBIDDEN = _by_the_library
