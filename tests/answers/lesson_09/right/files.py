"""Right answers to 09.file in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from itertools import product

from course_lib.layouts.mesh import Mesh

__all__ = ["ANSWERS", "SAME"]


def in_two_steps(rank: int, old: Mesh, new: Mesh) -> int:
    place = new.coordinates(rank)
    return old.rank_at(**place)


def by_search(rank: int, old: Mesh, new: Mesh) -> int:
    """Dictionaries are equal in any order of their keys."""
    here = {axis: at for axis, at in new.coordinates(rank).items() if axis in old.axes}
    return next(other for other in range(old.num_ranks) if old.coordinates(other) == here)


def by_digits(rank: int, old: Mesh, new: Mesh) -> int:
    places = {}
    for axis, size in zip(reversed(new.axes), reversed(new.shape), strict=True):
        rank, places[axis] = divmod(rank, size)
    number = 0
    for axis, size in zip(old.axes, old.shape, strict=True):
        number = number * size + places[axis]
    return number


def by_a_table(rank: int, old: Mesh, new: Mesh) -> int:
    table = {frozenset(old.coordinates(one).items()): one for one in range(old.num_ranks)}
    return table[frozenset((axis, at) for axis, at in new.coordinates(rank).items() if axis in old.axes)]


def by_counting(rank: int, old: Mesh, new: Mesh) -> int:
    """All places of the old mesh, the last axis fastest, as its ranks are numbered."""
    here = new.coordinates(rank)
    places = list(product(*(range(size) for size in old.shape)))
    return places.index(tuple(here[axis] for axis in old.axes))


ANSWERS = (in_two_steps, by_search, by_digits, by_a_table, by_counting)
SAME: dict[str, str] = {}
