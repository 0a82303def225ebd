"""06.tied: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_06.tied.mistakes import with_theirs


def average(weight: Any, theirs: Tensor) -> None:
    weight.grad = (weight.grad + theirs) / 2


def average_weights(weight: Any, theirs: Tensor) -> None:
    weight.copy_((weight + theirs) / 2)


def polite(me: Any, weight: Any, other: int) -> None:
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other)])
    exchange([recv(theirs, other)])
    weight.grad += theirs


def shy(me: Any, weight: Any, other: int) -> None:
    theirs = torch.empty_like(weight.grad)
    exchange([recv(theirs, other)])
    exchange([send(weight.grad, other)])
    weight.grad += theirs


def wipes_out(me: Any, weight: Any, other: int) -> None:
    """Rank 0's gradient is put in the place of the other's."""
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other), recv(theirs, other)])
    if me.rank:
        weight.grad = theirs


def rank_0_stays_away(me: Any, weight: Any, other: int) -> None:
    if me.rank:
        three_times(me, weight, other)


def everybody(me: Any, weight: Any, other: int) -> None:
    dist.all_reduce(weight.grad)


def three_times(me: Any, weight: Any, other: int) -> None:
    theirs = torch.empty_like(weight.grad)
    for _ in range(3):
        exchange([send(weight.grad, other), recv(theirs, other)])
    weight.grad += theirs


def in_shorter_numbers(me: Any, weight: Any, other: int) -> None:
    mine = weight.grad.bfloat16()
    theirs = torch.empty_like(mine)
    exchange([send(mine, other), recv(theirs, other)])
    weight.grad += theirs


def adds_before_it_came(me: Any, weight: Any, other: int) -> None:
    theirs = torch.zeros_like(weight.grad)
    works = [dist.irecv(theirs, src=other), dist.isend(weight.grad.clone(), dst=other)]
    weight.grad += theirs
    for work in works:
        assert work is not None
        work.wait()


def by_the_library(me: Any, weight: Any, other: int) -> None:
    from course_lib.parallel.model import TiedParameters

    part = nn.ParameterList([weight])
    TiedParameters(me.rank, [part, part], sorted([me.rank, other])).sum_gradients()


EXERCISE = "06.tied"
EXAMPLES: dict[str, Any] = {
    "touched-in-flight": adds_before_it_came,
    "both-send-first": polite,
    "both-receive-first": shy,
    "one-comes-alone": rank_0_stays_away,
    "asks-everybody": everybody,
    "averages": with_theirs(average),
    "wiped-out": wipes_out,
    "own-gradient": with_theirs(average_weights, of="weight"),
    "shorter-numbers": in_shorter_numbers,
    "sends-more": three_times,
}


FORBIDDEN = by_the_library
