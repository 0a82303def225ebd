"""09.place: meshes of the same names and other sizes, and places that stay as they are."""

from __future__ import annotations

import itertools

from answer_table import Row


class RightMesh:
    def __init__(self, sizes):
        self.sizes = sizes

    def rank_of(self, place):
        rank = 0
        for axis, size in self.sizes.items():
            rank = rank * size + place[axis]
        return rank

    def groups_along(self, axis):
        others = [name for name in self.sizes if name != axis]
        groups = []
        for here in itertools.product(*(range(self.sizes[name]) for name in others)):
            place = dict(zip(others, here, strict=True))
            groups.append([self.rank_of(place | {axis: number}) for number in range(self.sizes[axis])])
        return groups


class StridesByNames(RightMesh):
    CACHE = {}  # noqa: RUF012 - the mistake itself

    def rank_of(self, place):
        names = tuple(self.sizes)
        if names not in self.CACHE:
            strides, step = {}, 1
            for axis in reversed(names):
                strides[axis], step = step, step * self.sizes[axis]
            self.CACHE[names] = strides
        return sum(self.CACHE[names][axis] * place[axis] for axis in names)


class TakesThePlaceApart(RightMesh):
    def rank_of(self, place):
        rank = 0
        for axis, size in self.sizes.items():
            rank = rank * size + place.pop(axis)
        return rank


ROWS = [
    Row(answer=RightMesh, verdict="passed", why="the definition"),
    Row(answer=StridesByNames, verdict="not yet", why="another mesh has the same names and other sizes"),
    Row(answer=TakesThePlaceApart, verdict="not yet", why="the place is the caller's", words=("changed the place",)),
]
