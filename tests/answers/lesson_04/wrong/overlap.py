"""04.overlap: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import (
    Buckets,
    _grad,
    _put_back,
    _register,
    _sent,
    hooks,
)


def only_with_others(me: Rank, buckets: Buckets) -> Callable[[], None]:
    if me.world_size == 1:
        raise ValueError("this answer is for several ranks")
    return hooks()(me, buckets)


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


EXERCISE = "04.overlap"
EXAMPLES: dict[str, Any] = {
    "one-call-a-gradient": hooks(flat=False),
    "never-sends": never_sends,
    "after-backward": hooks(early=False),
    "leaves-late": holds_back,
    "waits-in-the-hook": hooks(wait_in_hook=True),
    "reads-before-it-is-there": hooks(wait_at_end=False),
    "keeps-what-is-done": hooks(clear=False),
    "never-lets-go": never_lets_go,
    "works-once": hooks(reset=False),
    "trusts-what-is-there": leaves_when_all_are_there,
    "leaves-too-soon": hooks(starts_at=lambda size: 1),
    "without-async-op": hooks(asynchronous=False),
    "not-alone": only_with_others,
}


FORBIDDEN = by_the_library
