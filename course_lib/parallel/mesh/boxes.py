"""What a rank holds of each parameter: a box of it, by offsets and sizes, whatever has cut it.

``tp`` cuts along one dim, and sharding then cuts rows of the slice, so what is left is always one box::

    w_down (out, in):   tp takes columns 3 to 5,   dp_shard of that rows 0 to 1     ->   offsets (0, 3), sizes (2, 3)

Which box, ``course_lib/layouts/mesh_pieces.py`` computes without torch, for the cost model too.

Where an axis has not cut a parameter, its ranks hold the same. The *first* of those, at place 0 along all such axes, is
the one that counts it in a norm: everything is counted once.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from course_lib.layouts.mesh_pieces import piece_of
from course_lib.parallel.mesh.on_mesh import OnMesh
from course_lib.parallel.tensor.checkpoint import parameter_placements
from course_lib.parallel.tensor.placements import Placement, Shard

__all__ = ["Box", "boxes_of"]


@dataclass(frozen=True, eq=False)
class Box:
    """What a rank holds of one parameter of the plain model."""

    name: str  # in the plain model's state_dict
    first_name: str  # of a tied parameter the first of its names; else the same
    shape: tuple[int, ...]  # of the whole parameter
    offsets: tuple[int, ...]  # where the box begins in it, dim by dim
    parameter: nn.Parameter  # the box itself
    is_first: bool  # of the ranks that hold this box under this name

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.parameter.shape)

    @property
    def counts(self) -> bool:
        """Whether this rank counts it: it is the first, and a tied parameter counts under its first name."""
        return self.is_first and self.name == self.first_name


def boxes_of(model: OnMesh) -> list[Box]:
    """The boxes on this rank, in the order of the plain model's names; a tied parameter under each of its names."""
    here, boxes = model.groups.coordinates, {}
    for module in model.modules:
        placements = parameter_placements(module)
        for name, parameter in module.named_parameters(remove_duplicate=False):
            shape, placement = model.shapes[name], placements[name]
            copied_along = ["dp_replicate"]
            copied_along += [] if isinstance(placement, Shard) else ["tp"]
            copied_along += [] if model.shards else ["dp_shard"]
            piece = piece_of(model.mesh, model.me.rank, shape, _tp_dim(placement))
            boxes[name] = Box(
                name,
                model.first_names[name],
                shape,
                piece.offsets,
                parameter,
                is_first=not any(here.get(axis, 0) for axis in copied_along),
            )
    return [boxes[name] for name in model.shapes if name in boxes]


def _tp_dim(placement: Placement) -> int | None:
    return placement.dim if isinstance(placement, Shard) else None
