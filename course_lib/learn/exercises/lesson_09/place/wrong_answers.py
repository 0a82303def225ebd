"""Usual wrong answers to 09.place, each with what it mixes up."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Place = dict[str, int]


class _Right:
    """The right answer; below, one thing of it is wrong at a time."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    @property
    def num_ranks(self) -> int:
        return prod(self.sizes.values())

    def stride(self, axis: str) -> int:
        """How far apart in rank two neighbours along an axis are."""
        names = list(self.sizes)
        return prod(self.sizes[name] for name in names[names.index(axis) + 1 :])

    def rank_of(self, place: Place) -> int:
        return sum(place[axis] * self.stride(axis) for axis in self.sizes)

    def groups_along(self, axis: str) -> Any:
        others = {name: range(size) for name, size in self.sizes.items() if name != axis}
        return [
            [self.rank_of(dict(zip(others, here, strict=True)) | {axis: number}) for number in range(self.sizes[axis])]
            for here in itertools.product(*others.values())
        ]


class _FirstIsFastest(_Right):
    def stride(self, axis: str) -> int:
        names = list(self.sizes)
        return prod(self.sizes[name] for name in names[: names.index(axis)])


class _OrderOfThePlace(_Right):
    def rank_of(self, place: Place) -> int:
        rank = 0
        for axis, number in place.items():
            rank = rank * self.sizes[axis] + number
        return rank

    def groups_along(self, axis: str) -> Any:
        return _Right(self.sizes).groups_along(axis)


class _OrderOfThePlaceAndGroups(_OrderOfThePlace):
    def groups_along(self, axis: str) -> Any:
        return _Right.groups_along(self, axis)  # whose places name the axis last


class _OwnSize(_Right):
    def stride(self, axis: str) -> int:
        return self.sizes[axis]


class _OneTooFar(_Right):
    def stride(self, axis: str) -> int:
        return super().stride(axis) * self.sizes[axis]


class _Added(_Right):
    def stride(self, axis: str) -> int:
        return 1


class _FromOne(_Right):
    def rank_of(self, place: Place) -> int:
        return super().rank_of(place) + 1


class _SamePlace(_Right):
    """The other axes together: who stands at the same place along this one."""

    def groups_along(self, axis: str) -> Any:
        stride, size = self.stride(axis), self.sizes[axis]
        return [[rank for rank in range(self.num_ranks) if rank // stride % size == number] for number in range(size)]


class _Neighbours(_Right):
    def groups_along(self, axis: str) -> Any:
        size = self.sizes[axis]
        return [list(range(first, first + size)) for first in range(0, self.num_ranks, size)]


class _Strided(_Right):
    def groups_along(self, axis: str) -> Any:
        stride = self.num_ranks // self.sizes[axis]
        return [list(range(first, self.num_ranks, stride)) for first in range(stride)]


class _NoBlocks(_Right):
    def groups_along(self, axis: str) -> Any:
        stride = self.stride(axis)
        return [list(range(first, self.num_ranks, stride)) for first in range(stride)]


class _FirstBlock(_Right):
    def groups_along(self, axis: str) -> Any:
        stride, size = self.stride(axis), self.sizes[axis]
        return [list(range(first, stride * size, stride)) for first in range(stride)]


class _OnlyFirst(_Right):
    def groups_along(self, axis: str) -> Any:
        return super().groups_along(axis)[0]


class _OneGroup(_Right):
    def groups_along(self, axis: str) -> Any:
        return super().groups_along(axis)[:1]


class _ForEveryRank(_Right):
    def groups_along(self, axis: str) -> Any:
        groups = super().groups_along(axis)
        return [next(group for group in groups if rank in group) for rank in range(self.num_ranks)]


class _NoneOfSizeOne(_Right):
    def groups_along(self, axis: str) -> Any:
        return [group for group in super().groups_along(axis) if len(group) > 1]


class _Places(_Right):
    def groups_along(self, axis: str) -> Any:
        places = [
            dict(zip(self.sizes, here, strict=True))
            for here in itertools.product(*(range(n) for n in self.sizes.values()))
        ]
        return [[places[rank] for rank in group] for group in super().groups_along(axis)]


MISTAKES = (
    Mistake(
        "first-is-fastest",
        "You let the *first* axis vary fastest. Here it is the last one, as in a number: its last digit changes with "
        "every step.",
        _FirstIsFastest,
    ),
    Mistake(
        "order-of-the-place",
        "`rank_of` goes through the axes in the order in which the *place* names them. The mesh has an order, "
        "`self.sizes`; a place is looked up by name.",
        _OrderOfThePlace,
    ),
    Mistake(
        "order-of-the-place-in-groups",
        "You go through the axes in the order in which the *place* names them. The mesh has an order, `self.sizes`; a "
        "place is looked up by name. The groups are wrong for the same reason: their places name another axis last.",
        _OrderOfThePlaceAndGroups,
    ),
    Mistake(
        "own-size",
        "You count a step along an axis as its own size. One step along an axis passes over all ranks that the axes "
        "*behind* it tell apart: the product of their sizes.",
        _OwnSize,
    ),
    Mistake(
        "one-too-far",
        "One step along an axis is the product of the sizes *behind* it; you take its own size in as well. Along the "
        "last axis a step is 1.",
        _OneTooFar,
    ),
    Mistake(
        "added",
        "You add the places up, so that several places get one rank. A step along an axis is worth as many ranks as "
        "the axes behind it tell apart.",
        _Added,
    ),
    Mistake("from-one", "You count ranks from 1. The rank at place 0 along every axis is rank 0.", _FromOne),
    Mistake(
        "same-place",
        "You put together the ranks that stand at the *same* place along the axis. A group of an axis is the other way "
        "round: the ranks differ along this axis, and agree along all others.",
        _SamePlace,
    ),
    Mistake(
        "neighbours",
        "Your groups are neighbours in rank, for every axis. That holds for the last axis alone: along the others a "
        "step is as far as the product of the sizes behind.",
        _Neighbours,
    ),
    Mistake(
        "strided",
        "Your groups are right for the outermost axis, and you make them in the same way for every axis. Further in, "
        "a step is shorter, and the groups come in blocks.",
        _Strided,
    ),
    Mistake(
        "no-blocks",
        "The step from rank to rank is right, and your groups go on to the last rank of the job. A group ends after as "
        "many ranks as the axis has places; behind it the next block of groups begins.",
        _NoBlocks,
    ),
    Mistake(
        "first-block",
        "The groups that you give are right, and they are those of the first block of ranks alone. In all of them the "
        "outer axes stand at 0; the groups of the other places are missing.",
        _FirstBlock,
    ),
    Mistake(
        "only-first",
        "That is one group, the first, as a plain list of ranks. Return all groups of the axis, a list of lists.",
        _OnlyFirst,
    ),
    Mistake(
        "one-group",
        "That is the first group alone. The axis has one for every place along the other axes; each rank is in one.",
        _OneGroup,
    ),
    Mistake(
        "for-every-rank",
        "You list the group of each rank, so that every group comes as often as it has ranks. Give each group once.",
        _ForEveryRank,
    ),
    Mistake(
        "none-of-size-one",
        "You leave out groups of one rank. Along an axis of size 1 each rank is a group of its own: code that asks for "
        "its group runs on every mesh.",
        _NoneOfSizeOne,
    ),
    Mistake(
        "places",
        "Your groups are made of places, and they have to be made of ranks: `rank_of` turns a place into a rank.",
        _Places,
    ),
)
