"""Right answers of other styles to the exercises about positions: two gates, and a norm of which each sees a part."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.right.sums import by_future
from torch import Tensor, nn
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    identity_all_reduce,
    reduce_scatter_all_gather,
)

__all__ = ["GATES", "NORMS"]


# -- 08.along ---------------------------------------------------------------------------------------------------------


def _gathered(part: Tensor) -> Tensor:
    whole = part.new_empty(part.size(0) * dist.get_world_size(), *part.shape[1:])
    dist.all_gather_into_tensor(whole, part.contiguous())
    return whole


def _scattered(partial: Tensor) -> Tensor:
    mine = partial.new_empty(partial.size(0) // dist.get_world_size(), *partial.shape[1:])
    dist.reduce_scatter_tensor(mine, partial.contiguous())
    return mine


def _by_all_to_all(partial: Tensor) -> Tensor:
    """Each rank sends every other its part, and adds up what comes."""
    parts = partial.contiguous()
    came = torch.empty_like(parts)
    dist.all_to_all_single(came, parts)
    return came.view(dist.get_world_size(), -1, *partial.shape[1:]).sum(dim=0)


def _around(part: Tensor) -> Tensor:
    """An all-gather by messages in a ring."""
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = [part.detach().clone() for _ in range(n)]
    for step in range(n - 1):
        give, take = (rank - step) % n, (rank - step - 1) % n
        sending = dist.P2POp(dist.isend, parts[give], (rank + 1) % n)
        taking = dist.P2POp(dist.irecv, parts[take], (rank - 1) % n)
        for work in dist.batch_isend_irecv([sending, taking]):
            work.wait()
    return torch.cat(parts)


class AlongByTensors(Function):
    """The tensor forms of the collectives, and the flag as a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        ctx.way = int(is_entrance)
        return (_scattered, _gathered)[ctx.way](x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return (_gathered, _scattered)[ctx.way](grads[0]), None


class AlongByMessages(Function):
    """A ring of messages, an all-to-all, and the newer form of a function."""

    @staticmethod
    def forward(x: Tensor, is_entrance: bool) -> Tensor:
        return _around(x) if is_entrance else _by_all_to_all(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        ctx.back = _by_all_to_all if inputs[1] else _around

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.back(grads[0]), None


class _Entrance(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _gathered(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Exit.apply(grads[0])


class _Exit(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _scattered(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Entrance.apply(grads[0])


class AlongByPairs:
    """Two functions, each the other's backward, behind one name."""

    @staticmethod
    def apply(x: Tensor, is_entrance: bool) -> Tensor:
        return (_Entrance if is_entrance else _Exit).apply(x)


# -- 08.positions -----------------------------------------------------------------------------------------------------


def norm_by_a_hook(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """The gradient of a view of the weight is summed by a hook."""
    shared = norm_weight.view_as(norm_weight)
    shared.register_hook(by_future)
    h = F.layer_norm(x, [x.shape[-1]], shared)
    hidden = F.gelu(AlongByPairs.apply(h, True) @ w_up.mT)
    return AlongByPairs.apply(hidden @ w_down.mT, False) + x


def norm_by_hand(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """The norm written out, its weight multiplied in through the entrance."""
    centred = x - x.mean(dim=-1, keepdim=True)
    spread = centred.square().mean(dim=-1, keepdim=True).add(1e-5).sqrt()
    h = torch.mul(centred / spread, identity_all_reduce(me, norm_weight))
    inside = torch.einsum("nd,hd->nh", all_gather_reduce_scatter(me, h), w_up)
    return torch.add(x, reduce_scatter_all_gather(me, torch.einsum("nh,dh->nd", F.gelu(inside), w_down)))


def norm_in_a_module(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """A module of PyTorch for the norm, called with the weight that came through the entrance."""
    norm = nn.LayerNorm(x.size(-1), bias=False, dtype=x.dtype, device=x.device)
    weight = identity_all_reduce(me, norm_weight)
    h = AlongByTensors.apply(torch.func.functional_call(norm, {"weight": weight}, (x,)), True)
    return x + AlongByTensors.apply(F.linear(F.gelu(F.linear(h, w_up)), w_down), False)


GATES = (AlongByTensors, AlongByMessages, AlongByPairs)
NORMS = (norm_by_a_hook, norm_by_hand, norm_in_a_module)
