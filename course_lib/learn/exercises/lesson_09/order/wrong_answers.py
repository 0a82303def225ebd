"""Usual wrong answers to 09.order, each with what it mixes up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.layouts.mesh import AXES, Mesh
from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Sizes = Mapping[str, int]
Seconds = Mapping[str, Sequence[float]]
Order = tuple[str, ...]
HowMany = Callable[[Mesh, str, int], float]  # the share of an axis that pays for the slow link, 0 to 1


def _leaving(mesh: Mesh, axis: str, per_node: int) -> list[bool]:
    """Whether it leaves its node, for each group of an axis."""
    return [len({rank // per_node for rank in group}) > 1 for group in mesh.groups(axis)]


def _any(mesh: Mesh, axis: str, per_node: int) -> float:
    return float(any(_leaving(mesh, axis, per_node)))


def _order(
    sizes: Sizes, per_node: int, seconds: Seconds, leaves: HowMany = _any, total: Any = sum, best: Any = min
) -> Order:
    """The right answer, where nothing is exchanged."""

    def time_s(order: Order) -> float:
        mesh = Mesh.of(**{axis: sizes[axis] for axis in order})
        shares = {axis: leaves(mesh, axis, per_node) for axis in order}
        return total(seconds[a][0] * (1 - shares[a]) + seconds[a][1] * shares[a] for a in order)

    return best(itertools.permutations(sizes), key=time_s)


def _habit(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return tuple(axis for axis in AXES if axis in sizes)


def _as_given(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return tuple(sizes)


def _innermost_first(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, seconds)[::-1]


def _worst(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, seconds, best=max)


def _slowest_axis(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, seconds, total=max)


def _first_group(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    def first(mesh: Mesh, axis: str, per_node: int) -> float:
        return float(_leaving(mesh, axis, per_node)[0])

    return _order(sizes, per_node, seconds, first)


def _share(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    def share(mesh: Mesh, axis: str, per_node: int) -> float:
        found = _leaving(mesh, axis, per_node)
        return sum(found) / len(found)

    return _order(sizes, per_node, seconds, share)


def _by_size(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, seconds, lambda mesh, axis, per_node: float(mesh.size(axis) > per_node))


def _span(mesh: Mesh, axis: str, per_node: int) -> float:
    """Whether the axis and those behind it have more ranks than a node."""
    return float(mesh.size(*mesh.axes[mesh.axes.index(axis) :]) > per_node)


def _by_span(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, seconds, _span)


def _by_between(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return tuple(sorted(sizes, key=lambda axis: seconds[axis][1]))


def _by_gain(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return tuple(sorted(sizes, key=lambda axis: seconds[axis][1] - seconds[axis][0]))


def _by_ratio(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return tuple(sorted(sizes, key=lambda axis: seconds[axis][1] / seconds[axis][0]))


def _other_link(sizes: Sizes, per_node: int, seconds: Seconds) -> Order:
    return _order(sizes, per_node, {axis: (between, within) for axis, (within, between) in seconds.items()})


def _the_time(sizes: Sizes, per_node: int, seconds: Seconds) -> Any:
    order = _order(sizes, per_node, seconds)
    mesh = Mesh.of(**{axis: sizes[axis] for axis in order})
    return sum(seconds[axis][int(_any(mesh, axis, per_node))] for axis in order)


MISTAKES = (
    Mistake(
        "habit",
        "That is the usual order, with `tp` innermost, for every job. It is usual because it is mostly the best. "
        "`seconds` says which order is the best here.",
        _habit,
    ),
    Mistake("as-given", "You give the axes as they came. Try other orders, and keep the fastest.", _as_given),
    Mistake(
        "innermost-first",
        "The order is right, but written the other way round: the first axis of the tuple is the outermost, and the "
        "last one varies fastest.",
        _innermost_first,
    ),
    Mistake("worst", "You find the order that takes longest. Find the one that takes least.", _worst),
    Mistake(
        "slowest-axis",
        "You compare orders by their slowest axis alone. The axes send one after the other: the sum of their times "
        "counts.",
        _slowest_axis,
    ),
    Mistake(
        "some-groups",
        "Your time is that of a group which stays within its node, where another group of the axis lies across two. "
        "Look at all groups: an axis takes `between_s` as soon as *any* of them leaves a node.",
        _first_group,
    ),
    Mistake(
        "share",
        "In your answer an axis costs more if more of its groups leave a node. But all ranks wait for the slowest "
        "group: one that leaves is enough for the whole of `between_s`.",
        _share,
    ),
    Mistake(
        "by-size",
        "You let an axis stay within a node where its *size* is no more than `ranks_per_node`. Its ranks may lie far "
        "apart all the same: look at the numbers of its ranks.",
        _by_size,
    ),
    Mistake(
        "by-span",
        "You let an axis stay within a node where it and the axes behind it have no more ranks than a node. Such a "
        "block may still begin on one node and end on the next. Three ranks fit on a node of four, and the second "
        "three lie across two nodes.",
        _by_span,
    ),
    Mistake(
        "by-between",
        "You sort the axes by what they take between nodes, the longest innermost. What an axis *gains* within a node "
        "counts, and whether it fits there.",
        _by_between,
    ),
    Mistake(
        "by-gain",
        "You sort the axes by what each would gain within a node. That comes near. But an axis larger than a node "
        "gains nothing there, and two small axes may fit together where a large one fits alone. Try the orders.",
        _by_gain,
    ),
    Mistake(
        "by-ratio",
        "You sort the axes by how many *times* faster they are within a node. From 10 ms to 1 ms is ten times as "
        "fast, and saves far less than from 2 s to 1 s: add seconds up.",
        _by_ratio,
    ),
    Mistake(
        "other-link",
        "You take `between_s` where the groups stay within a node, and `within_s` where they leave: `seconds[axis]` is "
        "(within_s, between_s).",
        _other_link,
    ),
    Mistake(
        "the-time",
        "That is what the best order takes. Return the order itself, a tuple of axes.",
        _the_time,
    ),
)
