"""A mesh: every rank has a place, given by one number for each axis. Data, without torch.

``Mesh.of(pp=2, dp_shard=2, tp=2)`` has three axes and eight ranks. The last axis varies fastest: ranks 0 and 1 differ
in ``tp`` alone, so they are neighbours, and most likely on one node. Which axis gets the fast link is the choice of
the order. Ranks that differ along one axis alone are a *group* of that axis; along several, a group of these together.

Names and order are the field's, as in torchtitan: ``pp`` pipeline stages, ``dp_replicate`` replicas, ``dp_shard``
shards of a replica, ``cp`` parts of the sequence (context parallelism), ``tp`` parts of a layer (tensor parallelism),
``ep`` experts. The numbering is that of ``torch.distributed.device_mesh.init_device_mesh``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known, nearest_divisor

__all__ = ["AXES", "COMBINED_AXES", "DATA_AXES", "Mesh"]

AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp", "ep")  # from the slowest link to the fastest, as usual
# Those along which the course cuts one model at once.
COMBINED_AXES = ("pp", "dp_replicate", "dp_shard", "tp")
DATA_AXES = ("dp_replicate", "dp_shard")  # ranks that differ along these have samples of their own

_MEANT = {  # what other programs call them
    "dp": "dp_replicate (each has a copy of the weights) or dp_shard (they share them out)",
    "data": "dp_replicate (each has a copy of the weights) or dp_shard (they share them out)",
    "ddp": "dp_replicate",
    "fsdp": "dp_shard",
    "zero": "dp_shard",
    "sp": "cp for parts of the sequence; sequence parallelism goes with tp",
    "mp": "tp",
    "model": "tp",
}


@checked
@dataclass(frozen=True)
class Mesh:
    """Named axes with their sizes, from the outermost to the one that varies fastest, and how many ranks a node has.

    Make one with ``Mesh.of`` or ``Mesh.parse``. ``ranks_per_node`` 0: all ranks are on one node. ``ValueError`` for an
    axis that is not among ``AXES`` or comes twice, and for nodes that are not all full.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    ranks_per_node: int = 0

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.shape):
            raise ValueError(f"a mesh of {len(self.axes)} axes has as many sizes; {len(self.shape)} were given")
        for axis in self.axes:
            _known_axis(axis)
        if len(set(self.axes)) < len(self.axes):
            twice = next(axis for axis in self.axes if self.axes.count(axis) > 1)
            raise ValueError(f"axis {twice!r} comes twice; give it once, with the product of both sizes")
        at_least(1, **dict(zip(self.axes, self.shape, strict=True)))
        at_least(0, ranks_per_node=self.ranks_per_node)
        at_most(MOST_RANKS, num_ranks=self.num_ranks)
        if self.ranks_per_node and self.num_ranks % self.ranks_per_node:
            nearest = nearest_divisor(self.ranks_per_node, of=self.num_ranks)
            raise ValueError(
                f"{self.num_ranks} ranks do not fill nodes of {self.ranks_per_node}: ranks_per_node divides the number "
                f"of ranks. The nearest that works is {nearest}."
            )

    @classmethod
    def of(cls, *, ranks_per_node: int = 0, **sizes: int) -> Mesh:
        """``Mesh.of(pp=2, tp=4)``: axes in the order in which they are named, the outermost first."""
        return cls(tuple(sizes), tuple(sizes.values()), ranks_per_node)

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """The mesh that ``str`` has written: ``"pp=2 dp_shard=2 tp=2, 4 ranks a node"``."""
        sizes_text, _, nodes_text = text.partition(",")
        sizes: dict[str, int] = {}
        for word in sizes_text.split():
            found = re.fullmatch(r"(\w+)=(\d+)", word)
            if found is None:
                raise ValueError(f"{word!r} is no axis with its size; write it as 'tp=2', with blanks between axes")
            if found[1] in sizes:
                raise ValueError(f"axis {found[1]!r} comes twice; give it once, with the product of both sizes")
            sizes[_known_axis(found[1])] = int(found[2])
        nodes = re.fullmatch(r"\s*(\d+) ranks a node\s*", nodes_text) if nodes_text else None
        if nodes_text and nodes is None:
            raise ValueError(f"{nodes_text.strip()!r} is not understood; after the comma stands '4 ranks a node'")
        return cls(tuple(sizes), tuple(sizes.values()), int(nodes[1]) if nodes else 0)

    def __str__(self) -> str:
        sizes = " ".join(f"{axis}={size}" for axis, size in zip(self.axes, self.shape, strict=True))
        return f"{sizes}, {self.ranks_per_node} ranks a node" if self.ranks_per_node else sizes

    # -- places -------------------------------------------------------------------------------------------------

    @property
    def num_ranks(self) -> int:
        return prod(self.shape)

    def size(self, *axes: str) -> int:
        """How many places there are along these axes together; 1 along an axis that the mesh does not have."""
        return prod(self._size(axis) for axis in axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank stands: its number along each axis. ``ValueError`` for a rank that is not there."""
        self._need_rank(rank)
        places = {}
        for axis, size in zip(reversed(self.axes), reversed(self.shape), strict=True):
            rank, places[axis] = divmod(rank, size)
        return {axis: places[axis] for axis in self.axes}

    def rank_at(self, **coordinates: int) -> int:
        """The rank at a place; an axis that is not named stands at 0."""
        rank = 0
        for axis, coordinate in coordinates.items():
            size = self._size(axis)
            if isinstance(coordinate, bool) or not isinstance(coordinate, int) or not 0 <= coordinate < size:
                raise ValueError(f"{axis}={coordinate!r}: places along {axis} are 0 to {size - 1}")
        for axis, size in zip(self.axes, self.shape, strict=True):
            rank = rank * size + coordinates.get(axis, 0)
        return rank

    def group_rank(self, rank: int, *axes: str) -> int:
        """A rank's number along these axes together, the last of them counting fastest: 0 to ``size(*axes)`` - 1."""
        number, here = 0, self.coordinates(rank)
        for axis in self._need(axes):
            number = number * self._size(axis) + here.get(axis, 0)
        return number

    def refuse_others(self, axes: Sequence[str], done: str) -> None:
        """``ValueError`` where this mesh cuts along another axis than ``axes``; ``done`` is what happens to those."""
        for axis in self.axes:
            if axis not in axes and self.size(axis) > 1:
                raise ValueError(
                    f"{axis}={self.size(axis)} is not {done} here, only {', '.join(axes)}. The nearest that works is "
                    f"{axis}=1."
                )

    def node_of(self, rank: int) -> int:
        """The node on which a rank lies: ranks fill one node after the other."""
        self._need_rank(rank)
        return rank // self.ranks_per_node if self.ranks_per_node else 0

    # -- groups -------------------------------------------------------------------------------------------------

    def group(self, rank: int, *axes: str) -> tuple[int, ...]:
        """The ranks that differ from ``rank`` along these axes alone, itself among them, in rising order."""
        here, together = self.coordinates(rank), [axis for axis in self.axes if axis in self._need(axes)]
        coordinates = itertools.product(*(range(self._size(axis)) for axis in together))
        return tuple(self.rank_at(**here | dict(zip(together, coordinate, strict=True))) for coordinate in coordinates)

    def groups(self, *axes: str) -> list[tuple[int, ...]]:
        """All groups along these axes: every rank is in one of them."""
        return sorted({self.group(rank, *axes) for rank in range(self.num_ranks)})

    def stays_within_a_node(self, *axes: str) -> bool:
        """Whether no message along these axes leaves a node."""
        return all(len({self.node_of(rank) for rank in group}) == 1 for group in self.groups(*axes))

    def orders(self) -> Iterator[Mesh]:
        """This mesh in every order of its axes."""
        for axes in itertools.permutations(self.axes):
            yield Mesh(axes, tuple(self._size(axis) for axis in axes), self.ranks_per_node)

    def _size(self, axis: str) -> int:
        _known_axis(axis)
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    def _need(self, axes: Sequence[str]) -> Sequence[str]:
        for axis in axes:
            _known_axis(axis)
        return axes

    def _need_rank(self, rank: int) -> None:
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.num_ranks:
            raise ValueError(
                f"rank={rank!r} is not in a mesh of {self.num_ranks} ranks: they are 0 to {self.num_ranks - 1}"
            )


def _known_axis(axis: str) -> str:
    """``axis`` itself where it is one; else ``ValueError`` with all of them, and the one that was meant."""
    if (meant := _MEANT.get(axis)) is not None:
        raise ValueError(f"axis is {axis!r}; it is one of {', '.join(AXES)}. What you mean is {meant}.")
    return known("axis", axis, AXES)
