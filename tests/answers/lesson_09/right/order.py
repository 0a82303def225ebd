"""Right answers to 09.order in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from course_lib.layouts.mesh import Mesh

__all__ = ["ALL", "SAME"]

Sizes = Mapping[str, int]
Seconds = Mapping[str, Sequence[float]]


def by_a_loop(sizes: Sizes, ranks_per_node: int, seconds: Seconds) -> list[str]:
    """Keeps the best so far; a mesh knows the node of a rank."""
    best, best_s = list(sizes), math.inf
    for order in itertools.permutations(sizes):
        mesh = Mesh(order, tuple(sizes[axis] for axis in order), ranks_per_node)
        time_s = 0.0
        for axis in order:
            within_s, between_s = seconds[axis]
            inside = all(len(set(map(mesh.node_of, group))) == 1 for group in mesh.groups(axis))
            time_s += within_s if inside else between_s
        if time_s < best_s:
            best, best_s = list(order), time_s
    return best


def by_ends(sizes: Sizes, ranks_per_node: int, seconds: Seconds) -> tuple[str, ...]:
    """A group leaves its node where its first and its last rank are on two."""
    num_ranks = math.prod(sizes.values())
    found = []
    for order in itertools.permutations(sizes):
        time_s, stride = 0.0, 1
        for axis in order[::-1]:
            reach = stride * (sizes[axis] - 1)
            firsts = [rank for rank in range(num_ranks) if rank // stride % sizes[axis] == 0]
            leaves = any(first // ranks_per_node != (first + reach) // ranks_per_node for first in firsts)
            time_s += seconds[axis][leaves]
            stride *= sizes[axis]
        found.append((time_s, order))
    return min(found)[1]


def by_what_is_gained(sizes: Sizes, ranks_per_node: int, seconds: Seconds) -> Any:
    """The most that is saved by axes that stay; the sizes themselves, in that order."""

    def saved_s(order: tuple[str, ...]) -> float:
        mesh = Mesh.of(**{axis: sizes[axis] for axis in order})
        staying = (
            axis for axis in order if all(g[0] // ranks_per_node == g[-1] // ranks_per_node for g in mesh.groups(axis))
        )
        return sum(seconds[axis][1] - seconds[axis][0] for axis in staying)

    return {axis: sizes[axis] for axis in max(itertools.permutations(sizes), key=saved_s)}


def last_of_equals(sizes: Sizes, ranks_per_node: int, seconds: Seconds) -> Iterator[str]:
    """Of orders that take as long the last one, axis by axis."""

    def leaves(mesh: Mesh, axis: str) -> bool:
        return any(
            {rank // ranks_per_node for rank in group} != {group[0] // ranks_per_node} for group in mesh.groups(axis)
        )

    meshes = [Mesh.of(**dict(items)) for items in itertools.permutations(sizes.items())]
    times_s = [round(sum(seconds[a][leaves(mesh, a)] for a in mesh.axes), 9) for mesh in meshes]
    yield from meshes[len(times_s) - 1 - times_s[::-1].index(min(times_s))].axes


ALL = (by_a_loop, by_ends, by_what_is_gained, last_of_equals)
SAME: dict[str, str] = {
    "3: `mesh = Mesh.of(**{axis: sizes[axis] for axis in order})` after `times_s[order] = 0.0`": "Neither line reads "
    "what the other makes.",
    "7: `times_s[order] += seconds[axis][1 if leaves else 0]` -> a new name for a new value": "A sum is stored under "
    "its order either way.",
    "4: `0.0` -> `1.0`": "A second more for every order leaves the best one the best.",
}
