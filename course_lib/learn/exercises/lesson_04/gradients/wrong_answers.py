"""Wrong answers to 04.gradients, each wrong in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank


def learning(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def filled(model: nn.Module) -> list[Tensor]:
    """The gradients of what learns, zeros where there is none."""
    for parameter in learning(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in learning(model) if parameter.grad is not None]


def sums(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.all_reduce(gradient)


def from_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.broadcast(gradient, src=0)


def only_on_rank_0(me: Rank, model: nn.Module) -> None:
    for gradient in filled(model):
        dist.reduce(gradient, dst=0)
        gradient /= me.world_size


def rank_0_divides(me: Rank, model: nn.Module) -> None:
    sums(me, model)
    if me.rank == 0:
        for gradient in filled(model):
            gradient /= me.world_size
