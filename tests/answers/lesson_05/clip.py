"""05.clip: one norm for gradients in shards; some shards have no gradient, wherever they stand."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def clipped(me, gradients, max_norm):
    squares = sum((gradient.square().sum() for gradient in gradients), torch.zeros((), device=me.device))
    dist.all_reduce(squares)
    norm = squares.sqrt()
    for gradient in gradients:
        gradient *= (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return norm


@torch.no_grad()
def leaves_out_the_last_shard(me, shards, max_norm):
    return clipped(me, [shard.grad for shard in shards[:-1] if shard.grad is not None], max_norm)


@torch.no_grad()
def stops_at_the_first_none(me, shards, max_norm):
    gradients = []
    for shard in shards:
        if shard.grad is None:
            break
        gradients.append(shard.grad)
    return clipped(me, gradients, max_norm)


@torch.no_grad()
def asks_the_first_shard_alone(me, shards, max_norm):
    gradients = [shard.grad for shard in shards if shard.grad is not None] if shards[0].grad is not None else []
    return clipped(me, gradients, max_norm)


@torch.no_grad()
def scales_a_flat_copy(me, shards, max_norm):
    gradients = [shard.grad for shard in shards if shard.grad is not None]
    squares = sum((gradient.square().sum() for gradient in gradients), torch.zeros((), device=me.device))
    dist.all_reduce(squares)
    norm = squares.sqrt()
    for gradient in gradients:
        gradient.flatten().mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


@torch.no_grad()
def sees_gradients_as_flat(me, shards, max_norm):
    return clipped(me, [shard.grad.view(-1) for shard in shards if shard.grad is not None], max_norm)


@torch.no_grad()
def a_call_for_each_shard(me, shards, max_norm):
    total = torch.zeros((), device=me.device)
    for shard in shards:
        own = torch.zeros((), device=me.device) if shard.grad is None else shard.grad.square().sum().float()
        dist.all_reduce(own)
        total += own
    norm = total.sqrt()
    for shard in shards:
        if shard.grad is not None:
            shard.grad *= (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return norm


@torch.no_grad()
def right_in_one_call(me, shards, max_norm):
    return clipped(me, [shard.grad for shard in shards if shard.grad is not None], max_norm)


ROWS = [
    Row(answer=right_in_one_call, verdict="passed", why="the definition"),
    Row(answer=a_call_for_each_shard, verdict="passed", why="a few numbers, which is all that is said of it"),
    Row(
        answer=leaves_out_the_last_shard,
        verdict="not yet",
        why="the last shard may have a gradient",
    ),
    Row(
        answer=stops_at_the_first_none,
        verdict="not yet",
        why="behind a shard without a gradient others have one",
    ),
    Row(
        answer=asks_the_first_shard_alone,
        verdict="not yet",
        why="the first shard may be the frozen one",
    ),
    Row(
        answer=scales_a_flat_copy,
        verdict="not yet",
        why="`flatten` copies a gradient that is not contiguous, and the copy is scaled",
    ),
    Row(
        answer=sees_gradients_as_flat,
        verdict="raised",
        why="a gradient that is not contiguous has no flat view",
        words=("view size is not compatible",),
    ),
]
