"""Right answers to 09.norm in other styles, and mutants that nobody could tell from the solution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from answers.lesson_08.right.sums import by_messages
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh

__all__ = ["ANSWERS", "SAME"]

Gradients = Sequence[tuple[Any, tuple[str, ...]]]


def by_division(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """Every rank counts all that it holds, divided by the number of copies; Python's numbers until they are sent."""
    total = 0.0
    for gradient, cut_by in gradients:
        if gradient is None:
            continue
        num_copies = mesh.num_ranks / mesh.size(*cut_by)
        total += float(torch.linalg.vector_norm(gradient, dtype=torch.float64)) ** 2 / num_copies
    travelling = torch.tensor(total, dtype=torch.float64, device=me.device)
    work = dist.all_reduce(travelling, async_op=True)
    assert work is not None
    work.wait()
    return travelling**0.5


def by_the_groups_first(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """The lowest rank of the group of copies counts; every rank's number is gathered."""
    mine = torch.zeros(1, dtype=torch.float64, device=me.device)
    for gradient, cut_by in gradients:
        holders = mesh.group(me.rank, *(set(mesh.axes) - set(cut_by)))
        if gradient is not None and me.rank == min(holders) and gradient.numel():
            flat = gradient.double().flatten()
            mine += flat @ flat
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    return torch.linalg.vector_norm(torch.cat(parts).sqrt())


def by_the_last_and_objects(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """The last of the copies counts, as well as the first would; numbers are sent as objects."""
    last = {axis: mesh.size(axis) - 1 for axis in mesh.axes}
    here = mesh.coordinates(me.rank)
    counted = [
        g.to(torch.float64).pow(2).sum().item()
        for g, cut_by in gradients
        if g is not None and {a for a in here if here[a] != last[a]} <= set(cut_by)
    ]
    found: list[Any] = [None] * me.world_size
    dist.all_gather_object(found, sum(counted))
    return torch.tensor(sum(found) ** 0.5, dtype=torch.float64, device=me.device)


def by_places_of_its_own(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """Coordinates by division with rest, sums by ``cut_by``, and a sum over ranks message by message."""
    place, number = {}, me.rank
    for axis, size in reversed(list(zip(mesh.axes, mesh.shape, strict=True))):
        number, place[axis] = divmod(number, size)
    squares: dict[tuple[str, ...], Tensor] = defaultdict(lambda: torch.zeros(1, dtype=torch.float64, device=me.device))
    for gradient, cut_by in gradients:
        if gradient is not None:
            squares[cut_by] = squares[cut_by] + gradient.double().norm() ** 2
    total = torch.zeros(1, dtype=torch.float64, device=me.device)
    for cut_by, square in squares.items():
        if not sum(place[axis] for axis in place if axis not in cut_by):
            total += square
    return (total if me.world_size == 1 else by_messages(total)).sqrt().squeeze()


def with_a_mask(me: Rank, mesh: Mesh, gradients: Gradients) -> Tensor:
    """A vector of squares times a vector of zeros and ones."""
    here = mesh.coordinates(me.rank)
    there = [(gradient, cut_by) for gradient, cut_by in gradients if gradient is not None]
    squares = torch.tensor([0.0, *(g.double().square().sum() for g, _ in there)], dtype=torch.float64)
    places = [max((here[axis] for axis in mesh.axes if axis not in cut_by), default=0) for _, cut_by in there]
    total = (squares * (torch.tensor([1, *places]) == 0)).sum().to(me.device)
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return torch.sqrt(total)


ANSWERS = (by_division, by_the_groups_first, by_the_last_and_objects, by_places_of_its_own, with_a_mask)

SAME: dict[str, str] = {
    "1: `here = mesh.coordinates(me.rank)` after `square = torch.zeros((), dtype=torch.float64, device=me.device)`": (
        "Neither line reads what the other makes."
    ),
    "7: `square += gradient.double().square().sum()` -> a new name for a new value": "The sum is nowhere else, so a "
    "new tensor of that name is as good.",
    "2: `torch.zeros((), dtype=torch.float64, device=me.device)` -> `torch.zeros((), dtype=torch.float64)`": "On ranks "
    "that compute on the CPU it is there already; where ranks have GPUs, the check refuses it.",
}
