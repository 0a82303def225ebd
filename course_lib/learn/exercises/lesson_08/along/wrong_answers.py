"""Wrong gates along positions, and right ones by forbidden or dear ways: what 08.along has to tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate

__all__ = [
    "along",
    "features_shared_out",
    "joined",
    "joined_by_features",
    "lost",
    "mean_shared_out",
    "not_waited_for",
    "own_among_zeros",
    "own_rows",
    "same",
    "shared_out",
]

Way = Callable[[Tensor], Tensor]


def same(tensor: Tensor) -> Tensor:
    return tensor.view_as(tensor)


def joined(part: Tensor) -> Tensor:
    """(P, D) -> (n P, D)."""
    return torch.cat(_every(part))


def joined_by_features(part: Tensor) -> Tensor:
    return torch.cat(_every(part), dim=1)


def features_shared_out(summand: Tensor) -> Tensor:
    """What goes back from ``joined_by_features``."""
    return shared_out(summand.T).T


def not_waited_for(part: Tensor) -> Tensor:
    parts = [torch.zeros_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous(), async_op=True)
    return torch.cat(parts)


def shared_out(partial: Tensor) -> Tensor:
    """(n P, D) -> (P, D), this rank's positions of the sum."""
    parts = [part.contiguous() for part in partial.chunk(dist.get_world_size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


def mean_shared_out(partial: Tensor) -> Tensor:
    return shared_out(partial) / dist.get_world_size()


def lost(grad: Tensor) -> Any:
    """No gradient at all."""
    return None


def own_rows(whole: Tensor) -> Tensor:
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def own_among_zeros(part: Tensor) -> Tensor:
    whole = part.new_zeros(part.size(0) * dist.get_world_size(), *part.shape[1:])
    whole.chunk(dist.get_world_size())[dist.get_rank()].copy_(part)
    return whole


def _every(part: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return parts


def along(
    enter: tuple[Way, Way] = (joined, shared_out), leave: tuple[Way, Way] = (shared_out, joined)
) -> type[Function]:
    """A gate with these ways (forward, backward) at its entrance and at its exit."""
    return gate(enter, leave)
