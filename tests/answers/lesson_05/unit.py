"""05.unit: what stays between forward and backward is looked for in arrays and bytes too, and a pass says no more."""

from __future__ import annotations

import io
from typing import ClassVar

import torch
import torch.distributed as dist
from answer_table import Row


def gathered(shard):
    weight = torch.empty(dist.get_world_size() * len(shard), shard.shape[1], dtype=shard.dtype)
    dist.all_gather(list(weight.chunk(dist.get_world_size())), shard)
    return weight


def mean_rows(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size())]
    rows = torch.empty_like(parts[0])
    dist.reduce_scatter(rows, parts)
    return rows / dist.get_world_size()


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        ctx.save_for_backward(x, shard)
        return x @ gathered(shard).T

    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        return grad @ gathered(shard), mean_rows(grad.T @ x)


class KeepsAnArrayInCtx(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        weight = gathered(shard)
        ctx.x, ctx.weight = x, weight.numpy().copy()
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        return grad @ torch.from_numpy(ctx.weight), mean_rows(grad.T @ ctx.x)


class KeepsAFileInCtx(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        weight, ctx.file, ctx.x = gathered(shard), io.BytesIO(), x
        torch.save(weight, ctx.file)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        ctx.file.seek(0)
        return grad @ torch.load(ctx.file), mean_rows(grad.T @ ctx.x)


class KeepsAListInCtx(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        weight = gathered(shard)
        ctx.x, ctx.weight = x, weight.tolist()
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        return grad @ torch.tensor(ctx.weight, dtype=grad.dtype), mean_rows(grad.T @ ctx.x)


class KeepsArraysOnTheClass(torch.autograd.Function):
    kept: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x, shard):
        weight = gathered(shard)
        ctx.save_for_backward(x)
        KeepsArraysOnTheClass.kept.append(weight.numpy().copy())
        ctx.number = len(KeepsArraysOnTheClass.kept) - 1
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ torch.from_numpy(KeepsArraysOnTheClass.kept[ctx.number]), mean_rows(grad.T @ x)


class ByBroadcastsAndReduces(torch.autograd.Function):
    @staticmethod
    def whole(shard):
        parts = [shard.clone() for _ in range(dist.get_world_size())]
        for rank, part in enumerate(parts):
            dist.broadcast(part, src=rank)
        return torch.cat(parts)

    @staticmethod
    def forward(ctx, x, shard):
        ctx.save_for_backward(x, shard)
        return x @ ByBroadcastsAndReduces.whole(shard).T

    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        parts = [part.clone() for part in (grad.T @ x).chunk(dist.get_world_size())]
        for rank, part in enumerate(parts):
            dist.reduce(part, dst=rank)
        mine = parts[dist.get_rank()] / dist.get_world_size()
        return grad @ ByBroadcastsAndReduces.whole(shard), mine


class InAnotherOrderOnRank1(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        ctx.save_for_backward(x, shard)
        return x @ gathered(shard).T

    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        if dist.get_rank() == 1:
            grad_x = grad @ gathered(shard)
            return grad_x, mean_rows(grad.T @ x)
        rows = mean_rows(grad.T @ x)
        return grad @ gathered(shard), rows


KEPT = "whatever it lies in, the whole weight is in memory between forward and backward"
ROWS = [
    Row(
        answer=Right,
        verdict="passed",
        why="the definition",
        words=("No rank sent more than", "was found"),
        unsaid=("no tensor keeps",),
    ),
    Row(
        answer=ByBroadcastsAndReduces,
        verdict="passed",
        why="the same bytes in other collectives",
        unsaid=("; an all-gather forward",),
    ),
    Row(answer=KeepsAnArrayInCtx, verdict="not yet", mistake="keeps-the-whole-weight", why=KEPT),
    Row(answer=KeepsAFileInCtx, verdict="not yet", mistake="keeps-the-whole-weight", why=KEPT),
    Row(answer=KeepsAListInCtx, verdict="not yet", mistake="keeps-the-whole-weight", why=KEPT),
    Row(answer=KeepsArraysOnTheClass, verdict="not yet", mistake="keeps-the-whole-weight", why=KEPT),
    Row(
        answer=InAnotherOrderOnRank1,
        verdict="raised",
        why="the ranks meet in another order, and wait for each other for ever",
        words=("can never finish",),
    ),
]
