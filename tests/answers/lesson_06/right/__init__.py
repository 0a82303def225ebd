"""Lesson 06: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

# -- 06.backward ------------------------------------------------------------------------------------------------


def by_torch_functions(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    """dist.send and dist.recv, torch.autograd.backward, and a detached leaf of its own."""
    if me.rank:
        dist.recv(room, src=me.rank - 1)
    entering = room.detach().clone().requires_grad_(True) if me.rank else x
    leaving, loss = part(entering), None
    if target is not None:
        loss = loss_of(leaving, target)
        loss.backward()
    else:
        dist.send(leaving.detach(), dst=me.rank + 1)
        gradient = torch.empty_like(leaving)
        dist.recv(gradient, src=me.rank + 1)
        torch.autograd.backward(leaving, gradient)
    if me.rank:
        dist.send(_grad(entering), dst=me.rank - 1)
    return loss


def by_a_product(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    """Backward of the sum of output times gradient; one exchange for both directions; the loss as a number."""
    if me.rank:
        exchange([recv(room, me.rank - 1)])
        x = room.requires_grad_()
    y = part(x)
    if me.rank < me.world_size - 1:
        gradient = torch.empty_like(y)
        exchange([send(y.detach(), me.rank + 1), recv(gradient, me.rank + 1)])
        (y * gradient).sum().backward()
    else:
        loss = loss_of(y, target)
        loss.backward()
    if me.rank:
        exchange([send(x.grad, me.rank - 1)])
    return loss.item() if me.rank == me.world_size - 1 else None


def by_autograd_grad(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    """torch.autograd.grad for the input and the parameters, added to .grad by hand."""
    entering = x
    if me.rank:
        work = dist.irecv(room, src=me.rank - 1)
        assert work is not None
        work.wait()
        entering = room.requires_grad_()
    leaving = part(entering)
    is_last = me.rank == me.world_size - 1
    loss = loss_of(leaving, target) if is_last else None
    gradient = None
    if not is_last:
        gradient = torch.zeros_like(leaving)
        exchange([send(leaving.detach(), me.rank + 1), recv(gradient, me.rank + 1)])
    learning = [parameter for parameter in part.parameters() if parameter.requires_grad]
    wanted = [entering, *learning] if me.rank else learning
    found = list(torch.autograd.grad(leaving if loss is None else loss, wanted, gradient))
    if me.rank:
        exchange([send(found.pop(0), me.rank - 1)])
    for parameter, grad in zip(learning, found, strict=True):
        parameter.grad = grad if parameter.grad is None else parameter.grad + grad
    return None if loss is None else loss.detach()


def by_operations(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
    """batch_isend_irecv, and a hook on what entered that sends its gradient back from within backward."""
    right, left = me.rank + 1, me.rank - 1
    if left >= 0:
        _started(dist.P2POp(dist.irecv, room, left))
        room.requires_grad_()
        room.register_hook(lambda grad: _started(dist.P2POp(dist.isend, grad.contiguous(), left)))
    leaving = part(room if left >= 0 else x)
    if right == me.world_size:
        loss = loss_of(leaving, target)
        loss.backward()
        return loss
    gradient = leaving.new_empty(leaving.shape)
    _started(dist.P2POp(dist.isend, leaving.detach(), right), dist.P2POp(dist.irecv, gradient, right))
    leaving.backward(gradient)
    return None


def _started(*operations: dist.P2POp) -> None:
    for work in dist.batch_isend_irecv(list(operations)):
        work.wait()


# -- 06.cut -----------------------------------------------------------------------------------------------------


def by_trying_limits(costs: Sequence[float], num_parts: int) -> list[int]:
    """The smallest limit under which filling from the left needs no more parts; then as many as wanted."""
    sizes: list[int] = []
    for limit in sorted({sum(costs[a:b]) for a, b in itertools.combinations(range(len(costs) + 1), 2)}):
        sizes, begin = [], 0
        while begin < len(costs) and costs[begin] <= limit:
            end = begin + 1
            while end < len(costs) and sum(costs[begin : end + 1]) <= limit:
                end += 1
            sizes, begin = [*sizes, end - begin], end
        if begin == len(costs) and len(sizes) <= num_parts:
            break
    while len(sizes) < num_parts:  # any part of several pieces may be cut further
        at = next(place for place, size in enumerate(sizes) if size > 1)
        sizes[at : at + 1] = [1, sizes[at] - 1]
    return sizes


def by_all_cuts(costs: Sequence[float], num_parts: int) -> tuple[int, ...]:
    """Every combination of places to cut, and the best of them; a tuple."""

    def bounds(inner: tuple[int, ...]) -> list[tuple[int, int]]:
        return list(itertools.pairwise((0, *inner, len(costs))))

    places = itertools.combinations(range(1, len(costs)), num_parts - 1)
    best = min(places, key=lambda inner: max(sum(costs[a:b]) for a, b in bounds(inner)))
    return tuple(b - a for a, b in bounds(best))


def with_a_memory(costs: list[float], num_parts: int) -> list[int]:
    """Recursion with a cache, from the right, on sums from the start."""
    until = [0.0, *itertools.accumulate(costs)]

    @functools.cache
    def best(end: int, parts: int) -> tuple[float, tuple[int, ...]]:
        if parts == 1:
            return until[end], (end,)
        return min(
            (max(best(cut, parts - 1)[0], until[end] - until[cut]), (*best(cut, parts - 1)[1], end - cut))
            for cut in range(parts - 1, end)
        )

    return list(best(len(costs), num_parts)[1])


def as_a_table(costs: list[float], num_parts: int) -> Any:
    """A table in NumPy, filled part by part; an array of sizes."""
    import numpy

    until = numpy.concatenate([[0.0], numpy.cumsum(costs)])
    least = until.copy()
    cuts = []
    for part in range(2, num_parts + 1):
        before, least = least, numpy.full(len(until), math.inf)
        cut = numpy.zeros(len(until), dtype=int)
        for end in range(part, len(until)):
            worst = numpy.maximum(before[part - 1 : end], until[end] - until[part - 1 : end])
            cut[end] = part - 1 + worst.argmin()
            least[end] = worst.min()
        cuts.append(cut)
    ends = [len(costs)]
    for cut in reversed(cuts):
        ends.insert(0, int(cut[ends[0]]))
    return numpy.diff([0, *ends])


# -- 06.tied ----------------------------------------------------------------------------------------------------


def in_turns(me: Any, weight: nn.Parameter, other: int) -> None:
    """The lower rank sends first, the higher one receives first; the sum is a new tensor."""
    theirs = torch.empty_like(weight).detach()
    messages = [send(_grad(weight), other), recv(theirs, other)]
    for message in messages if me.rank < other else reversed(messages):
        exchange([message])
    weight.grad = theirs + _grad(weight)


def by_works(me: Any, weight: nn.Parameter, other: int) -> None:
    """dist.isend and dist.irecv of a copy, both started before either is waited for."""
    theirs = _grad(weight).new_zeros(weight.shape)
    works = [dist.isend(_grad(weight).clone(), dst=other), dist.irecv(theirs, src=other)]
    for work in works:
        assert work is not None
        work.wait()
    _grad(weight).add_(theirs)


def by_operations_of_two(me: Any, weight: nn.Parameter, other: int) -> None:
    """batch_isend_irecv, and a sum over a stack of both."""
    both = torch.stack([_grad(weight), torch.empty_like(_grad(weight))])
    operations = [dist.P2POp(dist.isend, both[0], other), dist.P2POp(dist.irecv, both[1], other)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    weight.grad = both.sum(dim=0)


def _grad(parameter: Tensor) -> Any:
    return parameter.grad


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "06.backward": (by_torch_functions, by_a_product, by_autograd_grad, by_operations),
    "06.cut": (by_trying_limits, by_all_cuts, with_a_memory, as_a_table),
    "06.tied": (in_turns, by_works, by_operations_of_two),
}

_EMPTY_PARTS = (
    "What it tries in addition are cuts with empty parts, or a first part that takes all; a whole cut is at least as "
    "good, comes first, and a tie is not taken."
)
_TIES = "It differs only where two cuts are equally good, and any of the best cuts is right."

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "06.backward": {
        "1: `if not is_first:` after `entering = x if is_first else room.requires_grad_()`": (
            "What arrives is written past autograd, so `room` may become a leaf before it comes as well as after."
        ),
        "9: `exchange([send(leaving.detach(), me.rank + 1)])` after `gradient = torch.empty_like(leaving)`": (
            "Making room and sending do not depend on each other."
        ),
        "9: `leaving.detach()` -> `leaving`": (
            "A message carries the numbers alone, whether or not the tensor has a graph."
        ),
    },
    "06.cut": {
        "1: `if num_parts == 1:` after `best, best_largest = ([], float('inf'))`": (
            "The two lines do not depend on each other."
        ),
        "8: `begin += size` -> a new name for a new value": "A whole number is added to either way.",
        "4: `range(1, len(costs) - num_parts + 2)` -> `range(1, len(costs) - num_parts + 2 + 1)`": _EMPTY_PARTS,
        "4: `range(1, len(costs) - num_parts + 2)` -> `reversed(range(1, len(costs) - num_parts + 2))`": _TIES,
        "9: `largest < best_largest` -> `largest <= best_largest`": _TIES,
        "4: `len(costs) - num_parts` -> `len(costs) + num_parts`": _EMPTY_PARTS,
        "4: `len(costs) - num_parts` -> `len(costs)`": _EMPTY_PARTS,
        "4: `2` -> `3`": _EMPTY_PARTS,
        "5: `0` -> `-1`": "Costs are not negative, so the largest part so far may begin below 0 as well as at 0.",
        "7: `max(largest, sum(costs[begin:begin + size]))` -> `max(sum(costs[begin:begin + size]), largest)`": (
            "The larger of two numbers is the same in either order."
        ),
    },
    "06.tied": {
        "3: `weight.grad += theirs` -> a new name for a new value": (
            "The text asks for what `weight.grad` is afterwards; a new tensor there is as good as the old one."
        ),
    },
}
