"""Right answers to 04.overlap in other styles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank

__all__ = ["ANSWERS"]

Buckets = list[list[nn.Parameter]]


def counts_down_and_divides_first(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Counts down, divides in the hook, and makes the parts of the flat tensor the gradients themselves."""
    left: dict[int, int] = {}
    works: list[Any] = []
    place = {parameter: number for number, bucket in enumerate(buckets) for parameter in bucket}

    def hook(parameter: Any) -> None:
        number = place[parameter]
        left[number] = left.get(number, len(buckets[number])) - 1
        if not left[number]:
            flat = torch.cat([_grad(p).flatten() for p in buckets[number]]) / me.world_size
            works.append((number, flat, dist.all_reduce(flat, async_op=True)))
            del left[number]

    for parameter in place:
        parameter.register_post_accumulate_grad_hook(hook)

    def finish() -> None:
        while works:
            number, flat, work = works.pop(0)
            work.wait()
            sizes = [p.numel() for p in buckets[number]]
            for p, part in zip(buckets[number], flat.split(sizes), strict=True):
                p.grad = part.view_as(p)

    return finish


def looks_until_it_is_done(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Never waits: it looks at its works again and again, in a hook too, where the look costs nothing."""
    left = [len(bucket) for bucket in buckets]
    under_way: list[Any] = []
    num_seen = [0]

    def hook(number: int, parameter: Any) -> None:
        num_seen[0] += sum(work.is_completed() for *_, work in under_way)
        left[number] -= 1
        if not left[number]:
            flat = torch.cat([_grad(p).flatten() for p in buckets[number]])
            under_way.append((number, flat, dist.all_reduce(flat, async_op=True)))
            left[number] = len(buckets[number])

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(partial(hook, number))

    def finish() -> None:
        while under_way:
            number, flat, work = under_way.pop(0)
            while not work.is_completed():
                pass
            sizes = [p.numel() for p in buckets[number]]
            for p, part in zip(buckets[number], flat.split(sizes), strict=True):
                _grad(p).copy_(part.view_as(p) / me.world_size)

    return finish


class Sender:
    """A class with one buffer for each bucket, made once and used again in every step."""

    def __init__(self, me: Rank, bucket: list[nn.Parameter]) -> None:
        self.me, self.bucket, self.come, self.work = me, bucket, 0, None
        self.buffer = bucket[0].new_empty(sum(p.numel() for p in bucket)).detach()
        ends = torch.tensor([p.numel() for p in bucket]).cumsum(0)[:-1].tolist()
        self.views = [part.view(p.shape) for p, part in zip(bucket, self.buffer.tensor_split(ends), strict=True)]
        for parameter, view in zip(bucket, self.views, strict=True):
            parameter.register_post_accumulate_grad_hook(partial(self.put, view))

    def put(self, view: Tensor, parameter: nn.Parameter) -> None:
        view.copy_(_grad(parameter))
        self.come += 1
        if self.come == len(self.bucket):
            self.work, self.come = dist.all_reduce(self.buffer, op=dist.ReduceOp.AVG, async_op=True), 0

    def take(self) -> None:
        assert self.work is not None
        self.work.wait()
        self.work = None
        for parameter, view in zip(self.bucket, self.views, strict=True):
            _grad(parameter).copy_(view)


def with_senders(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Objects that keep their buffers, one a bucket."""
    senders = [Sender(me, bucket) for bucket in buckets]

    def finish() -> None:
        for sender in senders:
            sender.take()

    return finish


def by_futures(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """The way of comm hooks: the future of each all-reduce, its value taken in ``finish``."""
    futures: dict[int, Any] = {}
    waiting = [set(bucket) for bucket in buckets]

    def hook(number: int, parameter: nn.Parameter) -> None:
        waiting[number].discard(parameter)
        if not waiting[number]:
            flat = torch.cat([_grad(p).reshape(-1) for p in buckets[number]])
            futures[number] = dist.all_reduce(flat, async_op=True).get_future()
            waiting[number].update(buckets[number])

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(partial(hook, number))

    def finish() -> None:
        for number, future in futures.items():
            mean = future.wait()[0] / me.world_size
            parts = mean.split([p.numel() for p in buckets[number]])
            for p, part in zip(buckets[number], parts, strict=True):
                p.grad = part.reshape(p.shape).clone()
        futures.clear()

    return finish


def waits_for_all_futures(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Waits once for all futures together, then goes through a list of pairs."""
    pairs: list[tuple[Any, Tensor, list[nn.Parameter]]] = []

    def make(bucket: list[nn.Parameter]) -> Callable[[nn.Parameter], None]:
        come: list[nn.Parameter] = []

        def hook(parameter: nn.Parameter) -> None:
            come.append(parameter)
            if len(come) == len(bucket):
                flat = torch.cat([_grad(p).ravel() for p in bucket])
                pairs.append((dist.all_reduce(flat, async_op=True), flat, bucket))
                come.clear()

        return hook

    for bucket in buckets:
        hook = make(bucket)
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(hook)

    def finish() -> None:
        torch.futures.wait_all([work.get_future() for work, _, _ in pairs])
        for _, flat, bucket in pairs:
            begin = 0
            for p in bucket:
                _grad(p).copy_(flat[begin : begin + p.numel()].view_as(p) / me.world_size)
                begin += p.numel()
        pairs[:] = []

    return finish


def _grad(parameter: nn.Parameter) -> Any:
    return parameter.grad


ANSWERS = (
    counts_down_and_divides_first,
    looks_until_it_is_done,
    with_senders,
    by_futures,
    waits_for_all_futures,
)
