"""Who holds which piece of a matrix: for each rank of a mesh a box of it, by offsets and sizes. Data, without torch.

``tp`` cuts along one dim, into slices as even as can be; ``dp_shard`` then cuts the *rows of the slice* into equal
parts, rounded up. So what is left is always one box. Along the other axes ranks hold the same::

    (6, 4) on dp_replicate=2 dp_shard=2 tp=2, whose tp cuts columns

                columns 0 1   columns 2 3
    rows 0-2    ranks 0 4     ranks 1 5
    rows 3-5    ranks 2 6     ranks 3 7

Along ``pp`` the ranks hold different layers: a matrix is on the ranks of its stage alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.row_partition import rounded_up_range, split_sizes

__all__ = ["Piece", "holders_of_pieces", "piece_of"]


@dataclass(frozen=True, order=True)
class Piece:
    """A box of a tensor: where it begins, and how large it is, dim by dim. It may be empty."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def numel(self) -> int:
        """How many numbers it has."""
        return prod(self.sizes)

    def holds(self, *index: int) -> bool:
        """Whether the number at this place of the whole tensor is in it."""
        return all(first <= at < first + size for at, first, size in zip(index, self.offsets, self.sizes, strict=True))

    def __str__(self) -> str:
        """ "rows 0-31, columns 16-31"; of a vector "numbers 0-31"."""
        names: tuple[str, ...] = ("numbers",) if len(self.sizes) == 1 else ("rows", "columns")
        names += tuple(f"dim {dim} at" for dim in range(len(names), len(self.sizes)))
        return ", ".join(
            f"{name} {first}-{first + size - 1}" if size else f"no {name}"
            for name, first, size in zip(names, self.offsets, self.sizes, strict=True)
        )


@checked
def piece_of(mesh: Mesh, rank: int, shape: tuple[int, ...], tp_dim: int | None) -> Piece:
    """What ``rank`` keeps of a tensor of this shape, if its stage has it at all.

    ``tp_dim``: the dim that tensor parallelism cuts; None for what its ranks copy. ``ValueError`` for a rank that is
    not in the mesh, for a dim that the tensor has not, and for a tensor without dims, which has no rows.
    """
    here = mesh.coordinates(rank)
    _check_cut(shape, tp_dim)
    offsets, sizes = [0] * len(shape), list(shape)
    if tp_dim is not None:
        slices, place = split_sizes(shape[tp_dim], mesh.size("tp")), here.get("tp", 0)
        offsets[tp_dim], sizes[tp_dim] = sum(slices[:place]), slices[place]
    first, end = rounded_up_range(sizes[0], mesh.size("dp_shard"), here.get("dp_shard", 0))
    offsets[0], sizes[0] = offsets[0] + first, end - first
    return Piece(tuple(offsets), tuple(sizes))


@checked
def holders_of_pieces(
    mesh: Mesh, shape: tuple[int, ...], tp_dim: int | None, *, stages: tuple[int, ...] = (0,)
) -> dict[Piece, tuple[int, ...]]:
    """The pieces of a tensor, from its first number on, each with the ranks that hold it. Empty ones are left out.

    ``stages``: where along ``pp`` the tensor is; of a tied one, in more than one.
    """
    holders: dict[Piece, list[int]] = {}
    for rank in range(mesh.num_ranks):
        if mesh.coordinates(rank).get("pp", 0) in stages:
            piece = piece_of(mesh, rank, shape, tp_dim)
            if piece.numel:
                holders.setdefault(piece, []).append(rank)
    return {piece: tuple(holders[piece]) for piece in sorted(holders)}


def _check_cut(shape: tuple[int, ...], tp_dim: int | None) -> None:
    if not shape:
        raise ValueError("a tensor of shape () has no rows to deal out; the nearest that works is shape (1,)")
    at_least(0, **{f"dim {dim} of {shape}": size for dim, size in enumerate(shape)})
    if tp_dim is not None and not 0 <= tp_dim < len(shape):
        nearest = min(max(tp_dim, 0), len(shape) - 1)
        raise ValueError(
            f"tp_dim={tp_dim} is no dim of shape {shape}: they are 0 to {len(shape) - 1}, or None for a tensor that "
            f"is copied. The nearest is {nearest}."
        )
