"""Wrong answers to 04.overlap, each wrong in one way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank

__all__ = ["Buckets", "hooks"]

Buckets = list[list[nn.Parameter]]


def hooks(
    *,
    early: bool = True,
    wait_in_hook: bool = False,
    wait_at_end: bool = True,
    divide: bool = True,
    copy_back: bool = True,
    reset: bool = True,
    flat: bool = True,
    clear: bool = True,
    asynchronous: bool = True,
    starts_at: Callable[[int], int] = lambda size: size,
) -> Callable[[Rank, Buckets], Callable[[], None]]:
    """The answer, right but for what the arguments change."""

    def start_early(me: Rank, buckets: Buckets) -> Callable[[], None]:
        under_way: list[tuple[Any, Tensor, Sequence[nn.Parameter]]] = []
        arrived = [0] * len(buckets)

        def begin(parameters: Sequence[nn.Parameter]) -> None:
            under_way.append(_sent(parameters, wait=wait_in_hook, asynchronous=asynchronous))

        def hook(number: int, parameter: nn.Parameter) -> None:
            arrived[number] += 1
            if early and not flat:
                begin([parameter])
            elif early and arrived[number] == starts_at(len(buckets[number])):
                begin(buckets[number])
                if reset:
                    arrived[number] = 0

        _register(hook, buckets)

        def finish() -> None:
            for bucket in buckets if not early else ():
                begin(bucket)
            for work, flat_gradients, parameters in under_way:
                if wait_at_end:
                    work.wait()
                _put_back(flat_gradients / me.world_size if divide else flat_gradients, parameters, copy_back)
            if clear:
                under_way.clear()

        return finish

    return start_early


def _register(hook: Callable[[int, nn.Parameter], None], buckets: Buckets) -> None:
    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(partial(hook, number))


def _sent(parameters: Sequence[nn.Parameter], *, wait: bool, asynchronous: bool) -> tuple[Any, Tensor, Any]:
    flat = torch.cat([_grad(p).flatten() for p in parameters])
    work = dist.all_reduce(flat, async_op=asynchronous)
    if wait:
        work.wait()
    return work, flat, parameters


def _grad(parameter: nn.Parameter) -> Any:
    return parameter.grad  # None, where the mistake is to ask too soon


def _put_back(flat: Tensor, parameters: Sequence[nn.Parameter], copy_back: bool) -> None:
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, part in zip(parameters, flat.split(sizes), strict=True):
        if copy_back:
            _grad(parameter).copy_(part.view_as(parameter))
