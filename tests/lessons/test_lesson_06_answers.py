"""Lesson 06's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.distributed as dist
from answers.lesson_06.right import by_a_product

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- right, in another way --------------------------------------------------------------------------------------


def by_torch_functions(me, part, x, target, loss_of, room):
    """Right: dist.send and dist.recv, autograd.grad for the input, and a detached leaf of its own."""
    if me.rank:
        dist.recv(room, src=me.rank - 1)
    entering = room.detach().clone().requires_grad_(True) if me.rank else x
    leaving = part(entering)
    if target is not None:
        loss = begin = loss_of(leaving, target)
        begin.backward()
    else:
        loss = None
        dist.send(leaving.detach(), dst=me.rank + 1)
        gradient = torch.empty_like(leaving)
        dist.recv(gradient, src=me.rank + 1)
        torch.autograd.backward(leaving, gradient)
    if me.rank:
        dist.send(entering.grad, dst=me.rank - 1)
    return loss


def by_trying_limits(costs, num_parts):
    """Right: the smallest limit under which filling from the left needs no more parts; then as many as wanted."""
    runs = sorted({sum(costs[a:b]) for a in range(len(costs)) for b in range(a + 1, len(costs) + 1)})
    for limit in runs:
        sizes, load = [0], 0
        for cost in costs:
            if cost > limit:
                break
            if load + cost > limit:
                sizes, load = [*sizes, 0], 0
            sizes[-1], load = sizes[-1] + 1, load + cost
        else:
            if len(sizes) <= num_parts:
                break
    while len(sizes) < num_parts:  # any part of several pieces may be cut further
        at = next(i for i, size in enumerate(sizes) if size > 1)
        sizes[at : at + 1] = [1, sizes[at] - 1]
    return sizes


def by_all_cuts(costs, num_parts):
    best, best_sizes = math.inf, ()
    for inner in itertools.combinations(range(1, len(costs)), num_parts - 1):
        ends = [(a, b) for a, b in itertools.pairwise((0, *inner, len(costs)))]
        largest = max(sum(costs[a:b]) for a, b in ends)
        if largest < best:
            best, best_sizes = largest, tuple(b - a for a, b in ends)
    return best_sizes


def a_new_gradient(me, weight, other):
    """Right: one sends first, the other receives first; the sum is a new tensor."""
    theirs = torch.empty_like(weight)
    theirs = theirs.detach()
    messages = [send(weight.grad, other), recv(theirs, other)]
    for message in messages if me.rank < other else reversed(messages):
        exchange([message])
    weight.grad = theirs + weight.grad


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("06.backward", by_torch_functions),
        ("06.cut", by_trying_limits),
        ("06.cut", by_all_cuts),
        ("06.tied", a_new_gradient),
    ],
)
def test_another_right_answer_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


# -- wrong, in another way --------------------------------------------------------------------------------------


def everybody_gets_everything(me, part, x, target, loss_of, room):
    """Right gradients by broadcasts: each message goes to ranks that it is not for."""
    entering = x
    for rank in range(me.world_size):
        if rank == me.rank:
            leaving = part(entering)
        out = leaving.detach().clone() if rank == me.rank else torch.empty_like(room)
        dist.broadcast(out, src=rank)
        if rank + 1 == me.rank:
            entering = out.requires_grad_()
    loss = None
    for rank in reversed(range(me.world_size)):
        if rank == me.world_size - 1 == me.rank:
            loss = loss_of(leaving, target)
            loss.backward()
        elif rank == me.rank:
            leaving.backward(gradient)  # noqa: F821
        gradient = entering.grad.clone() if rank == me.rank and rank else torch.empty_like(room)
        dist.broadcast(gradient, src=rank)
    return loss


def scaled_on_the_way(me, part, x, target, loss_of, room):
    """Divides the gradients by the number of ranks after the step."""
    loss = by_a_product(me, part, x, target, loss_of, room)
    for parameter in part.parameters():
        parameter.grad /= me.world_size
    return loss


def sends_before_it_knows(me, part, x, target, loss_of, room):
    """Sends back a gradient before backward has made one."""
    if me.rank == 0:
        y = part(x)
        gradient = torch.empty_like(y)
        exchange([send(y.detach(), 1), recv(gradient, 1)])
        y.backward(gradient)
        return None
    exchange([recv(room, me.rank - 1)])
    room.requires_grad_()
    exchange([send(room.grad, me.rank - 1)])
    loss = loss_of(part(room), target)
    loss.backward()
    return loss


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (everybody_gets_everything, None, "messages sent: expected 1, got 2"),
        (scaled_on_the_way, None, ""),
        (sends_before_it_knows, "no-leaf", "None"),
    ],
)
def test_wrong_steps_are_turned_away(answer, mistake, words):
    seen = verdict("06.backward", answer)
    assert not seen.passed
    assert mistake is None or seen.mistake == mistake, seen
    assert words in f"{seen.evidence} {seen.message}"


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (lambda costs, n: [len(costs) - n + 1] + [1] * (n - 1), None, "the largest can be"),
        (lambda costs, n: [0] * (n - 1) + [len(costs)], None, "parts of at least one"),
        (lambda costs, n: list(range(n)), "loses-pieces", "does not share"),
        (lambda costs, n: 3, None, "whole numbers"),
        (lambda costs, n: [True] * n, None, "whole numbers"),
    ],
)
def test_a_wrong_cut_is_shown_with_its_largest_part(answer, mistake, words):
    seen = verdict("06.cut", answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.evidence} {seen.message}"


def test_nothing_done_leaves_each_copy_its_own_gradient():
    def counts_only(me, weight, other):
        weight.grad *= 1

    seen = verdict("06.tied", counts_only)
    assert (seen.status, seen.mistake) == ("not yet", "own-gradient"), seen
