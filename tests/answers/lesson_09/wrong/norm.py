"""09.norm: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh

Gradients = Sequence[tuple[Any, tuple[str, ...]]]


Weigh = Callable[[Rank, Mesh, tuple[str, ...]], float]


def copied(mesh: Mesh, cut_by: Sequence[str]) -> list[str]:
    return [axis for axis in mesh.axes if axis not in cut_by]


def is_first(me: Rank, mesh: Mesh, axes: Sequence[str]) -> bool:
    here = mesh.coordinates(me.rank)
    return all(here.get(axis, 0) == 0 for axis in axes)


def right_weight(me: Rank, mesh: Mesh, cut_by: tuple[str, ...]) -> float:
    return float(is_first(me, mesh, copied(mesh, cut_by)))


def own_square(me: Rank, mesh: Mesh, gradients: Gradients, weigh: Weigh = right_weight) -> Tensor:
    """This rank's sum of squares, each times its weight."""
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        if gradient is not None:
            square += weigh(me, mesh, cut_by) * gradient.double().square().sum()
    return square


def counting(weigh: Weigh) -> Callable[..., Tensor]:
    """The norm where a gradient counts for another share than is right."""

    def answer(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
        square = own_square(me, mesh, gradients, weigh)
        dist.all_reduce(square)
        return square.sqrt()

    return answer


counts_copies = counting(lambda me, mesh, cut_by: 1.0)


only_rank_0 = counting(lambda me, mesh, cut_by: float(me.rank == 0 or not copied(mesh, cut_by)))


the_other_axes = counting(lambda me, mesh, cut_by: float(is_first(me, mesh, cut_by)))


only_tp = counting(lambda me, mesh, cut_by: float("tp" in cut_by or is_first(me, mesh, ["tp"])))


only_replicas = counting(lambda me, mesh, cut_by: float(is_first(me, mesh, ["dp_replicate"])))


divides_by_parts = counting(lambda me, mesh, cut_by: 1 / mesh.size(*cut_by))


throws_copies_away = counting(lambda me, mesh, cut_by: float(all(mesh.size(a) == 1 for a in copied(mesh, cut_by))))


def divides_the_norm(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """By the number of copies, before it is squared."""
    return counting(lambda me, mesh, cut_by: 1 / mesh.size(*copied(mesh, cut_by)) ** 2)(me, mesh, gradients)


def local_norm(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    return own_square(me, mesh, gradients).sqrt()


def adds_norms(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    norm = own_square(me, mesh, gradients).sqrt()
    dist.all_reduce(norm)
    return norm


def averages(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)
    return (square / me.world_size).sqrt()


def forgets_the_root(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)
    return square


def sums_to_rank_0(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = own_square(me, mesh, gradients)
    dist.reduce(square, dst=0)
    return square.sqrt()


def not_waited_for(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square, async_op=True)
    return square.sqrt()


def returns_early(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """On a rank without gradients."""
    there = [(gradient, cut_by) for gradient, cut_by in gradients if gradient is not None]
    if not there:
        return torch.zeros((), dtype=torch.float64, device=me.device)
    return counting(right_weight)(me, mesh, there)


def stays_away(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """On a rank that is not the first of anything."""
    square = own_square(me, mesh, gradients)
    if any(mesh.coordinates(me.rank).values()):
        return square.sqrt()
    dist.all_reduce(square)
    return square.sqrt()


def one_call_a_gradient(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """It stops where lists differ in length; where they do not, it sends a number for each."""
    total = torch.zeros((), dtype=torch.float64, device=me.device)
    for pair in gradients:
        square = own_square(me, mesh, [pair])
        dist.all_reduce(square)
        total += square
    return total.sqrt()


def asks_none(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        if is_first(me, mesh, copied(mesh, cut_by)):
            square += gradient.double().square().sum()
    dist.all_reduce(square)
    return square.sqrt()


def begins_with_nothing(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    counted = [right_weight(me, mesh, cut_by) * g.double().square().sum() for g, cut_by in gradients if g is not None]
    square = torch.stack(counted).sum()
    dist.all_reduce(square)
    return square.sqrt()


def scales_by_the_largest(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """Squares of numbers up to 1, which cannot overflow; no rows have no largest number."""

    def scaled(gradient: Tensor) -> Tensor:
        top = gradient.double().abs().max().clamp(min=1e-300)
        return top * (gradient.double() / top).square().sum().sqrt()

    return counting(right_weight)(me, mesh, [(None if g is None else scaled(g), cut_by) for g, cut_by in gradients])


def views_as_a_row(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    return counting(right_weight)(me, mesh, [(None if g is None else g.view(-1), cut_by) for g, cut_by in gradients])


def hides_a_nan(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    there = [(None if g is None else torch.nan_to_num(g), cut_by) for g, cut_by in gradients]
    return counting(right_weight)(me, mesh, there)


def knows_no_cp(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """The axes of this lesson, by name."""
    axes = ("pp", "dp_replicate", "dp_shard", "tp")
    return counting(lambda me, mesh, cut_by: float(is_first(me, mesh, [a for a in axes if a not in cut_by])))(
        me, mesh, gradients
    )


def takes_pairs_out(me: Rank, mesh: Mesh, gradients: Any) -> Tensor:
    there = [gradients.pop() for _ in range(len(gradients))]
    return counting(right_weight)(me, mesh, there)


def in_their_own_dtype(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = torch.zeros((), dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        if gradient is not None:
            square += right_weight(me, mesh, cut_by) * gradient.square().sum()
    dist.all_reduce(square)
    return square.sqrt()


def adds_in_float32(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    square = torch.zeros((), device=me.device)
    square += own_square(me, mesh, gradients)
    dist.all_reduce(square)
    return square.sqrt().double()


def in_float32(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    return counting(right_weight)(me, mesh, gradients).float()


def zeroes_copies(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """Takes what it does not count to zero, and then sums up all: the gradients are gone."""
    for gradient, cut_by in gradients:
        if gradient is not None:
            gradient *= right_weight(me, mesh, cut_by)
    square = own_square(me, mesh, gradients, lambda me, mesh, cut_by: 1.0)
    dist.all_reduce(square)
    return square.sqrt()


def gathers_gradients(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    counted = [g.double().flatten() for g, cut_by in gradients if g is not None and right_weight(me, mesh, cut_by)]
    mine = torch.cat([torch.zeros(1, dtype=torch.float64, device=me.device), *counted])
    lengths: list[Any] = [None] * me.world_size
    dist.all_gather_object(lengths, len(mine))
    parts = [mine.new_empty(max(lengths)) for _ in lengths]
    dist.all_gather(parts, torch.nn.functional.pad(mine, (0, max(lengths) - len(mine))))
    return torch.cat(parts).norm()


def by_the_library(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    from course_lib.parallel.mesh import clipping, gradient_norm

    boxes = [
        SimpleNamespace(counts=bool(right_weight(me, mesh, cut_by)), parameter=SimpleNamespace(grad=gradient))
        for gradient, cut_by in gradients
    ]
    model: Any = SimpleNamespace(me=me)
    with patch.object(clipping, "boxes_of", lambda _: boxes):
        return gradient_norm(model)


EXERCISE = "09.norm"
EXAMPLES: dict[str, Any] = {
    "not-waited-for": not_waited_for,
    "counts-copies": counts_copies,
    "local-norm": local_norm,
    "only-rank-0": only_rank_0,
    "the-other-axes": the_other_axes,
    "only-tp": only_tp,
    "only-replicas": only_replicas,
    "divides-by-parts": divides_by_parts,
    "divides-the-norm": divides_the_norm,
    "throws-copies-away": throws_copies_away,
    "adds-norms": adds_norms,
    "averages": averages,
    "no-root": forgets_the_root,
    "right-on-rank-0-alone": sums_to_rank_0,
    "returns-early": returns_early,
    "a-call-for-each": one_call_a_gradient,
    "stays-away": stays_away,
    "trips-over-none": asks_none,
    "begins-with-nothing": begins_with_nothing,
    "trips-over-no-rows": scales_by_the_largest,
    "takes-rows-for-granted": views_as_a_row,
    "hides-a-nan": hides_a_nan,
    "knows-no-cp": knows_no_cp,
    "in-their-own-dtype": in_their_own_dtype,
    "adds-in-float32": adds_in_float32,
    "in-another-form": in_float32,
    "takes-pairs-out": takes_pairs_out,
    "changes-the-gradients": zeroes_copies,
    "sends-much": gathers_gradients,
}


FORBIDDEN = by_the_library
