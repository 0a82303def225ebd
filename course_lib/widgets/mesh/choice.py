"""What the mesh explorer's controls choose, and what the cost model says of the choice.

The model is lesson 09's small transformer, trained by AdamW in float32 on a batch of 32 sequences, whatever the mesh.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from course_lib.base.checks import at_least, at_most
from course_lib.cost.mesh.link_bytes import LinkBytes, MeshStep
from course_lib.cost.mesh.mesh_parts import transformer_pieces
from course_lib.cost.mesh.mesh_state import check_transformer_mesh, holders_of_parameter, mesh_state
from course_lib.cost.single_device.model_state import StateBytes
from course_lib.layouts.mesh import COMBINED_AXES as AXES
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece
from course_lib.models import TransformerConfig

__all__ = ["AXES", "CONFIG", "MOST_RANKS", "NUM_ROWS", "PARAMETERS", "MeshChoice", "every_mesh_choice"]

CONFIG = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
NUM_ROWS = 32  # sequences of the whole batch

MOST_RANKS = 16
PARAMETERS = tuple(parameter.name for piece in transformer_pieces(CONFIG) for parameter in piece)


@dataclass(frozen=True)
class MeshChoice:
    """A mesh, without the axes of size 1: two orders that differ in those alone are one choice."""

    mesh: Mesh

    @classmethod
    def of(cls, sizes: Mapping[str, int], order: Iterable[str], ranks_per_node: int = 0) -> MeshChoice:
        """``ValueError`` for a mesh that is none, has too many ranks for a picture, or cannot hold the model."""
        axes = [axis for axis in order if sizes[axis] > 1] or ["dp_replicate"]
        num_ranks = Mesh.of(**{axis: sizes[axis] for axis in axes}).num_ranks
        if num_ranks > MOST_RANKS:
            raise ValueError(
                f"{' x '.join(str(sizes[axis]) for axis in axes)} are {num_ranks} ranks; this explorer draws at most "
                f"{MOST_RANKS}. The sizes of all axes together make up the number of ranks."
            )
        mesh = Mesh(tuple(axes), tuple(sizes[axis] for axis in axes), ranks_per_node)
        check_transformer_mesh(CONFIG, mesh)
        MeshStep(config=CONFIG, mesh=mesh, batch_size=NUM_ROWS)  # enough sequences for all micro-batches
        return cls(mesh)

    @property
    def num_ranks(self) -> int:
        return self.mesh.num_ranks

    @property
    def num_nodes(self) -> int:
        return self.num_ranks // self.mesh.ranks_per_node if self.mesh.ranks_per_node else 1

    @property
    def axes(self) -> tuple[str, ...]:
        """Those along which ranks differ."""
        return self.mesh.axes if self.num_ranks > 1 else ()

    def states(self) -> list[StateBytes]:
        """What each rank holds after a step."""
        return list(_states(self.mesh))

    @property
    def most_held_bytes(self) -> int:
        """By the rank that holds most."""
        return max(state.total for state in self.states())

    def sent(self) -> dict[str, LinkBytes]:
        """What all ranks together send in a step, axis by axis: within nodes, and between them."""
        return dict(_sent(self.mesh))

    @property
    def between_bytes(self) -> int:
        """What passes from node to node in a step, along all axes."""
        return sum(axis.between_bytes for axis in self.sent().values())

    def holders(self, name: str) -> dict[Piece, tuple[int, ...]]:
        """The pieces of a parameter, each with its ranks."""
        return holders_of_parameter(CONFIG, self.mesh, name)

    def __str__(self) -> str:
        return str(self.mesh)


def every_mesh_choice(num_ranks: int, ranks_per_node: int = 0) -> list[MeshChoice]:
    """All meshes of so many ranks that can hold the model, in all orders, each once.

    ``ValueError`` for nodes that are not all full, and for more ranks than the explorer draws.
    """
    at_least(1, num_ranks=num_ranks)
    at_most(MOST_RANKS, num_ranks=num_ranks)
    Mesh(("dp_replicate",), (num_ranks,), ranks_per_node)
    divisors = [size for size in range(1, num_ranks + 1) if num_ranks % size == 0]
    found: dict[MeshChoice, None] = {}
    for shape in itertools.product(divisors, repeat=len(AXES)):
        if prod(shape) == num_ranks:
            for order in itertools.permutations(AXES):
                with suppress(ValueError):  # heads that tp does not divide, more stages than pieces
                    found[MeshChoice.of(dict(zip(AXES, shape, strict=True)), order, ranks_per_node)] = None
    return list(found)


@lru_cache(maxsize=256)
def _states(mesh: Mesh) -> tuple[StateBytes, ...]:
    found: dict[tuple[int, ...], StateBytes] = {}
    states = []
    for rank in range(mesh.num_ranks):
        place = tuple((mesh.coordinates(rank) | {"dp_replicate": 0}).values())  # replicas are alike
        if place not in found:
            found[place] = mesh_state(CONFIG, mesh, rank)
        states.append(found[place])
    return tuple(states)


@lru_cache(maxsize=256)  # another parameter is looked at on the same mesh
def _sent(mesh: Mesh) -> tuple[tuple[str, LinkBytes], ...]:
    step = MeshStep(config=CONFIG, mesh=mesh, batch_size=NUM_ROWS)
    within, between = (dict.fromkeys(mesh.axes, 0) for _ in range(2))
    for rank in range(mesh.num_ranks if mesh.num_ranks > 1 else 0):
        for call, count in Counter(step.calls(rank)).items():
            if call.axis in within:  # the mean of the losses, a number, is of no axis
                for receiver, size_bytes in call.sent_bytes(rank, step.backend).items():
                    near = mesh.node_of(rank) == mesh.node_of(receiver)
                    (within if near else between)[call.axis] += count * size_bytes
    return tuple((axis, LinkBytes(within[axis], between[axis])) for axis in mesh.axes)
