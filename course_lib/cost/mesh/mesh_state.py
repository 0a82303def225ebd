"""What each rank of a mesh keeps of a transformer: the pieces of its tensors, and the bytes of the state in training.

Tensors, slices and stages are those of ``mesh_parts.py``, and so of ``course_lib.parallel.mesh.OnMesh``. Activations
are not counted here.
"""

from __future__ import annotations

from dataclasses import replace

from course_lib.base.checked import checked
from course_lib.base.checks import nearest_divisor
from course_lib.cost.mesh.mesh_parts import PieceParameter, pieces_of_stages, transformer_pieces
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.cost.single_device.model_state import DTYPE_BYTES, StateBytes, model_state
from course_lib.layouts.mesh import COMBINED_AXES, Mesh
from course_lib.layouts.mesh_pieces import Piece, holders_of_pieces, piece_of

__all__ = ["check_transformer_mesh", "holders_of_parameter", "mesh_state", "pieces_of_rank"]


@checked
def pieces_of_rank(config: TransformerSizes, mesh: Mesh, rank: int) -> dict[str, Piece]:
    """What a rank keeps, by the parameters' names, a tied one once. One of its stage may leave it no rows.

    ``ValueError`` for an axis that ``OnMesh`` does not combine, for heads that ``tp`` does not divide, for more stages
    than pieces.
    """
    check_transformer_mesh(config, mesh)
    stage = pieces_of_stages(config, mesh.size("pp"))[mesh.coordinates(rank).get("pp", 0)]
    return {
        parameter.name: piece_of(mesh, rank, parameter.shape, parameter.cut_dim)
        for piece in transformer_pieces(config)[stage.start : stage.stop]
        for parameter in piece
    }


@checked
def holders_of_parameter(config: TransformerSizes, mesh: Mesh, name: str) -> dict[Piece, tuple[int, ...]]:
    """The pieces of one parameter, from its first number on, and the ranks that hold each.

    A tied matrix is in the first stage and in the last. ``ValueError`` as above, and for a name that the model does
    not have.
    """
    check_transformer_mesh(config, mesh)
    found: PieceParameter | None = None
    at = set()  # pieces of the model
    for place, piece in enumerate(transformer_pieces(config)):
        for parameter in piece:
            if parameter.name == name:
                found = parameter
                at.add(place)
    if found is None:
        raise ValueError(f"the model has no {name!r}; its parameters have names as 'blocks.0.mlp.w_up.weight'")
    ranges = pieces_of_stages(config, mesh.size("pp"))
    stages = tuple(stage for stage, places in enumerate(ranges) if at & set(places))
    return holders_of_pieces(mesh, found.shape, found.cut_dim, stages=stages)


@checked
def mesh_state(
    config: TransformerSizes, mesh: Mesh, rank: int, *, optimizer: str = "adamw", dtype: str = "float32"
) -> StateBytes:
    """Bytes of weights, gradients and optimizer states that a rank holds after a step.

    Gradients of shards lie in the buffer in which they came, where the ranks with fewer rows have padding.
    ``ValueError`` as in ``pieces_of_rank``, and as in ``model_state``.
    """
    here = mesh.coordinates(rank)
    fullest = mesh.rank_at(**here | {"dp_shard": 0}) if "dp_shard" in here else rank  # of its group
    held = pieces_of_rank(config, mesh, rank).values()
    padded = pieces_of_rank(config, mesh, fullest).values() if fullest != rank else held
    numel, padded_numel = (sum(piece.numel for piece in pieces) for pieces in (held, padded))
    state = model_state(numel, optimizer=optimizer, dtype=dtype, num_tensors=len(held))
    return replace(state, gradients=padded_numel * DTYPE_BYTES[dtype])


def check_transformer_mesh(config: TransformerSizes, mesh: Mesh) -> None:
    """``ValueError`` for a mesh on which ``OnMesh`` could not put this model."""
    mesh.refuse_others(COMBINED_AXES, "counted")
    most, num_stages, num_slices = config.num_layers + 2, mesh.size("pp"), mesh.size("tp")
    if num_stages > most:
        raise ValueError(
            f"pp={num_stages} is more stages than this model has pieces: stem, {config.num_layers} blocks and head are "
            f"{most}, and every stage needs one. The nearest that works is pp={most}."
        )
    for what, heads in (("query", config.num_heads), ("key/value", config.kv_heads)):
        if heads % num_slices:
            raise ValueError(
                f"tp={num_slices} does not divide the {heads} {what} heads of this model, and a head is computed on "
                f"one rank. The nearest that works is tp={nearest_divisor(num_slices, heads)}."
            )
