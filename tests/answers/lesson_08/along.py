"""08.along: gates along positions, which leave a gradient as it came, and are told apart by what they did."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def joined(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts)


def shared_out(summand):
    parts = [part.contiguous() for part in summand.chunk(dist.get_world_size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


class DividesTheGradientInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx, grad):
        grad /= dist.get_world_size()
        back = shared_out(grad) if ctx.is_entrance else joined(grad)
        return back * dist.get_world_size(), None


class EmptiesTheGradientAfterUse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx, grad):
        back = shared_out(grad) if ctx.is_entrance else joined(grad)
        grad.zero_()
        return back, None


class SumsRowsAmongZeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx, grad):
        if ctx.is_entrance:
            return shared_out(grad), None
        n, rank = dist.get_world_size(), dist.get_rank()
        whole = grad.new_zeros(n * len(grad), grad.size(1))
        whole[rank * len(grad) : (rank + 1) * len(grad)] = grad
        dist.all_reduce(whole)
        return whole, None


class KeepsTheFlagInTheClass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        KeepsTheFlagInTheClass.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx, grad):
        return (shared_out(grad) if KeepsTheFlagInTheClass.is_entrance else joined(grad)), None


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx, grad):
        return (shared_out(grad) if ctx.is_entrance else joined(grad)), None


ROWS = [
    Row(answer=Right, verdict="passed", why="the definition"),
    Row(
        answer=DividesTheGradientInPlace,
        verdict="not yet",
        mistake="overwrites-the-gradient",
        why="of `x + leave(...)` the other path reads that gradient too",
    ),
    Row(
        answer=EmptiesTheGradientAfterUse,
        verdict="not yet",
        mistake="overwrites-the-gradient",
        why="of `x + leave(...)` the other path reads that gradient too",
    ),
    Row(
        answer=SumsRowsAmongZeros,
        verdict="not yet",
        mistake="gathers-by-all-reduce",
        why="nothing is dropped: every rank needs all rows there, and an all-gather brings them for half the bytes",
        unsaid=("kept a part", "for its own positions alone"),
    ),
    Row(
        answer=KeepsTheFlagInTheClass,
        verdict="not yet",
        mistake="flag-beside-ctx",
        why="each gate is right by itself; the second one writes over the flag of the first",
        unsaid=("where `forward` gathers, `backward` shares out",),
    ),
]
