"""Tied parameters of a model that is cut: a copy on each rank that uses it, kept equal by adding up gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from course_lib.cluster import exchange, recv, send

__all__ = ["TiedParameters"]


class TiedParameters:
    """The parameters that this rank shares with others, such as an embedding used again in the head.

    ``parts[i]`` is a piece of the model and ``owners[i]`` the rank that holds it; all ranks make the same parts from
    the same seed. A parameter in two parts of one rank is one tensor, and autograd adds up its gradients itself. What
    is remembered are names: a part whose parameters become shards later has the gradients of shards added up.
    """

    def __init__(self, rank: int, parts: Sequence[nn.Module], owners: Sequence[int]) -> None:
        holders: dict[nn.Parameter, set[int]] = {}
        mine: dict[nn.Parameter, tuple[nn.Module, str]] = {}  # in which part of this rank, and its name there
        for part, owner in zip(parts, owners, strict=True):
            for name, parameter in part.named_parameters():
                holders.setdefault(parameter, set()).add(owner)
                if owner == rank:
                    mine.setdefault(parameter, (part, name))
        self._rank = rank
        self._shared = [
            (*mine[p], sorted(ranks)) for p, ranks in holders.items() if p in mine and len(ranks) > 1
        ]

    def sum_gradients(self) -> None:
        """After backward, before the step: each copy gets the sum of the gradients of all copies.

        One message each way between every two ranks that hold a copy. Copies that were equal at the start stay so to
        the last bit, because all ranks add up in the same order.
        """
        for part, name, ranks in self._shared:
            parameter = part.get_parameter(name)
            if not parameter.requires_grad:  # on all ranks alike
                continue
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            mine = gradient.contiguous()
            by_rank = {r: mine if r == self._rank else mine.new_empty(mine.shape) for r in ranks}
            others = [rank for rank in ranks if rank != self._rank]
            exchange([send(mine, rank) for rank in others] + [recv(by_rank[rank], rank) for rank in others])
            parameter.grad = torch.stack([by_rank[rank] for rank in ranks]).sum(0)
