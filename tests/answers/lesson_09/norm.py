"""09.norm: what is not a row, not there, not a number or not needed, and sentences that fit what was sent."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def own_square(me, mesh, gradients, number=lambda gradient: gradient, axes=None):
    here = mesh.coordinates(me.rank)
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        copied = [axis for axis in axes or mesh.axes if axis not in cut_by]
        if gradient is not None and not any(here.get(axis, 0) for axis in copied):
            square += number(gradient).double().square().sum()
    return square


def right_norm(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)
    return square.sqrt()


def to_rank_0_and_back(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    dist.reduce(square, dst=0)
    dist.broadcast(square, src=0)
    return square.sqrt()


def takes_pairs_one_by_one(me, mesh, gradients):
    there = []
    while gradients:
        there.append(gradients.pop())
    return right_norm(me, mesh, there)


def views(me, mesh, gradients):
    square = own_square(me, mesh, gradients, lambda gradient: gradient.view(-1))
    dist.all_reduce(square)
    return square.sqrt()


def hides_nan(me, mesh, gradients):
    square = own_square(me, mesh, gradients, torch.nan_to_num)
    dist.all_reduce(square)
    return square.sqrt()


def names_of_axes(me, mesh, gradients):
    square = own_square(me, mesh, gradients, axes=("pp", "dp_replicate", "dp_shard", "tp"))
    dist.all_reduce(square)
    return square.sqrt()


def largest_first(me, mesh, gradients):
    def scaled(gradient):
        top = gradient.double().abs().max()
        return top * torch.linalg.vector_norm(gradient.double() / top)

    square = own_square(me, mesh, gradients, scaled)
    dist.all_reduce(square)
    return square.sqrt()


def sends(count):
    def sends_numbers(me, mesh, gradients):
        squares = torch.zeros(count, dtype=torch.float64, device=me.device)
        squares[0] = own_square(me, mesh, gradients)
        dist.all_reduce(squares)
        return squares.sum().sqrt()

    return sends_numbers


def three_calls(me, mesh, gradients):
    found = []
    for place in range(3):
        square = own_square(me, mesh, gradients[place::3])
        dist.all_reduce(square)
        found.append(square)
    return sum(found).sqrt()


ROWS = [
    Row(
        answer=right_norm,
        verdict="passed",
        why="the definition",
        unsaid=("did not grow", "eight meshes"),
        words=("a NaN was not hidden",),
    ),
    Row(answer=to_rank_0_and_back, verdict="passed", why="a number there and a number back"),
    Row(
        answer=takes_pairs_one_by_one,
        verdict="not yet",
        mistake="takes-pairs-out",
        why="the list is the caller's",
        unsaid=("in place",),
    ),
    Row(
        answer=views,
        verdict="not yet",
        mistake="takes-rows-for-granted",
        why="a gradient need not be stored by row",
        words=("view size is not compatible",),
    ),
    Row(answer=hides_nan, verdict="not yet", mistake="hides-a-nan", why="a gradient with a NaN has no norm"),
    Row(answer=names_of_axes, verdict="not yet", mistake="knows-no-cp", why="a mesh may have an axis cp"),
    Row(
        answer=largest_first,
        verdict="not yet",
        mistake="trips-over-no-rows",
        why="its gradient is there, and has no rows; it begins with zeros",
        unsaid=("torch.zeros", "no gradient at all"),
    ),
    Row(answer=sends(4), verdict="not yet", mistake="sends-much", why="one number", words=("sent 4 numbers",)),
    Row(answer=sends(100), verdict="not yet", mistake="sends-much", why="one number", unsaid=("grows",)),
    Row(answer=three_calls, verdict="not yet", mistake="sends-much", why="one number", words=("sent 3 numbers",)),
]
