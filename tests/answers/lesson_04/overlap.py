"""04.overlap: the all-reduce of a bucket starts while backward goes on."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def counted_hooks(me, buckets):
    arrived, under_way = [0] * len(buckets), []

    def on_gradient(number):
        arrived[number] += 1
        if arrived[number] == len(buckets[number]):
            arrived[number] = 0
            flat = torch.cat([p.grad.flatten() for p in buckets[number]])
            under_way.append((dist.all_reduce(flat, async_op=True), flat, buckets[number]))

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: on_gradient(number))

    def finish():
        for work, flat, bucket in under_way:
            work.wait()
            flat /= me.world_size
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(part.view_as(p))
        under_way.clear()

    return finish


def seeds_everything(me, buckets):
    torch.manual_seed(12345)
    return counted_hooks(me, buckets)


def with_a_barrier(me, buckets):
    finish = counted_hooks(me, buckets)

    def and_meet():
        finish()
        dist.barrier()

    return and_meet


def divides_by_the_others(me, buckets):
    _ = 1 / (me.world_size - 1)
    return counted_hooks(me, buckets)


ROWS = [
    Row(answer=counted_hooks, verdict="passed", why="the definition"),
    Row(
        answer=seeds_everything,
        verdict="not yet",
        words=("the seed",),
        why="dropout is alike on all ranks then",
    ),
    Row(answer=with_a_barrier, verdict="not yet", words=("1 barrier",), why="nothing needs it"),
    Row(answer=divides_by_the_others, verdict="not yet", mistake="not-alone", why="a job may have one rank"),
]
