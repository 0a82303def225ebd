"""Wrong answers to 04.overlap, each wrong in one way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank

__all__ = [
    "Buckets",
    "by_the_library",
    "holds_back",
    "hooks",
    "leaves_when_all_are_there",
    "never_lets_go",
    "never_sends",
    "only_with_others",
]

Buckets = list[list[nn.Parameter]]


def only_with_others(me: Rank, buckets: Buckets) -> Callable[[], None]:
    if me.world_size == 1:
        raise ValueError("this answer is for several ranks")
    return hooks()(me, buckets)


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


def holds_back(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """All buckets leave together, with the last gradient of all."""
    under_way: list[tuple[Any, Tensor, Any]] = []
    come: list[nn.Parameter] = []

    def hook(parameter: nn.Parameter) -> None:
        come.append(parameter)
        if len(come) == sum(map(len, buckets)):
            under_way.extend(_sent(bucket, wait=False, asynchronous=True) for bucket in buckets)
            come.clear()

    for parameter in (parameter for bucket in buckets for parameter in bucket):
        parameter.register_post_accumulate_grad_hook(hook)

    def finish() -> None:
        for work, flat, parameters in under_way:
            work.wait()
            _put_back(flat / me.world_size, parameters, True)
        under_way.clear()

    return finish


def leaves_when_all_are_there(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Right as long as gradients begin as None."""
    under_way: list[tuple[Any, Tensor, Any]] = []

    def hook(number: int, parameter: nn.Parameter) -> None:
        if all(parameter.grad is not None for parameter in buckets[number]):
            under_way.append(_sent(buckets[number], wait=False, asynchronous=True))

    _register(hook, buckets)

    def finish() -> None:
        for work, flat, parameters in under_way:
            work.wait()
            _put_back(flat / me.world_size, parameters, True)
        under_way.clear()

    return finish


def never_lets_go(me: Rank, buckets: Buckets) -> Callable[[], None]:
    """Right, and a list of what came of each step grows for good."""
    finish_step, kept = hooks()(me, buckets), list[Tensor]()

    def finish() -> None:
        finish_step()
        kept.extend(_grad(parameter).clone() for bucket in buckets for parameter in bucket)

    return finish


def never_sends(me: Rank, buckets: Buckets) -> Callable[[], None]:
    return lambda: None


def by_the_library(me: Rank, buckets: Buckets) -> Callable[[], None]:
    from course_lib.parallel.data import DistributedDataParallel

    def finish() -> None:
        DistributedDataParallel(me, nn.ParameterList([p for bucket in buckets for p in bucket]))
        for bucket in buckets:
            for parameter in bucket:
                dist.all_reduce(_grad(parameter))

    return finish
