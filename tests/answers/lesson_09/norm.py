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


def keeps_the_norm_of_shapes(me, mesh, gradients, norms={}):  # noqa: B006
    shapes = str(mesh), *((None if g is None else g.shape, cut_by) for g, cut_by in gradients)
    if shapes not in norms:
        norms[shapes] = right_norm(me, mesh, gradients)
    return norms[shapes]


def keeps_who_counts(me, mesh, gradients, counts={}):  # noqa: B006
    here = mesh.coordinates(me.rank)
    key = str(mesh), len(gradients)
    if key not in counts:
        counts[key] = [not any(here[a] for a in mesh.axes if a not in cut_by) for _, cut_by in gradients]
    chosen = [(g if mine else None, mesh.axes) for (g, _), mine in zip(gradients, counts[key], strict=True)]
    return right_norm(me, mesh, chosen)


def the_last_counts(me, mesh, gradients):
    here = mesh.coordinates(me.rank)
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        if gradient is not None and all(here[a] == mesh.size(a) - 1 for a in mesh.axes if a not in cut_by):
            square += gradient.double().square().sum()
    dist.all_reduce(square)
    return square.sqrt()


def stops_at_none(me, mesh, gradients):
    there = [g is None for g, _ in gradients]
    return right_norm(me, mesh, gradients[: there.index(True)] if True in there else gradients)


def asks_who_counts(me, mesh, gradients):
    everybodys = [None] * me.world_size
    dist.all_gather_object(everybodys, [cut_by for _, cut_by in gradients])
    return right_norm(me, mesh, gradients)


def meets_first(me, mesh, gradients):
    dist.barrier()
    return right_norm(me, mesh, gradients)


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
    Row(answer=the_last_counts, verdict="passed", why="one of the copies counts, whichever"),
    Row(
        answer=keeps_the_norm_of_shapes,
        verdict="not yet",
        mistake="keeps-something",
        why="gradients of equal shapes are others in the next step",
    ),
    Row(
        answer=keeps_who_counts,
        verdict="not yet",
        mistake="keeps-something",
        why="as many pairs may be other pairs",
    ),
    Row(
        answer=stops_at_none,
        verdict="not yet",
        words=("a frozen weight",),
        why="behind a frozen weight others have gradients",
    ),
    Row(
        answer=asks_who_counts,
        verdict="not yet",
        mistake="sends-much",
        words=("bytes of something else",),
        why="no rank may ask another: it follows from the place",
    ),
    Row(answer=meets_first, verdict="not yet", mistake="sends-much", words=("in 1 barrier",), why="a call for nothing"),
]
