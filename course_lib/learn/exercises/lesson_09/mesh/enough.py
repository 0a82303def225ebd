"""09.mesh: what is enough: numbers in memory, bytes along each axis, and bytes in a folder."""

from __future__ import annotations

from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_09.mesh.cases import SITUATIONS, dim_of, learning_at, oracle, part_at

__all__ = ["SEEN", "enough_bytes", "enough_numbers", "enough_written"]

SEEN = ("begin", "losses", "end", "held", "sent", "norms", "written")  # in some cases
_FEW, _FEW_BYTES, _FILE_BYTES = 512, 1024, 64 * 1024
_STATES = 2  # of AdamW


def enough_numbers(label: str, mesh: Mesh, rank: int) -> int:
    """Beside the parts: a share of weights, of gradients, of two states and of what counts in a norm."""
    return 5 * -(-learning_at(label, mesh, rank) // mesh.size("dp_shard")) + _FEW


def enough_bytes(label: str, mesh: Mesh, rank: int) -> dict[str, int]:
    """That a rank has to send in a step along each axis, as rings send them, and a few for loss and norm."""
    situation = SITUATIONS[label]
    config, here, item = situation.config, mesh.coordinates(rank), 8
    places = -(-situation.rows // mesh.size("dp_shard")) * config.context_length
    stream = places * config.width * item
    names = part_at(label, mesh, rank, oracle(label).begin)
    layers = {".".join(name.split(".")[:3]) for name in names if name.startswith("blocks") and "norm" not in name}
    gates = 2 * len(layers) + ("stem.tokens.weight" in names) + ("head.w_vocab.weight" in names)
    around = {axis: 2 * (mesh.size(axis) - 1) / mesh.size(axis) for axis in mesh.axes}
    loss = 3 * places * item if "head.w_vocab.weight" in names else 0
    learning = learning_at(label, mesh, rank) * item
    ends = (here["pp"] > 0) + (here["pp"] + 1 < mesh.size("pp"))
    return {
        "pp": ends * stream + _FEW_BYTES,
        "dp_shard": int(around["dp_shard"] * learning) + _FEW_BYTES,
        "tp": int(around["tp"] * (gates * stream + loss)) + _FEW_BYTES,
        "all": _FEW_BYTES,
    }


def enough_written(label: str) -> int:
    """Weights and two states once, a part of a tenth that tp copies again, and names."""
    begin = oracle(label).begin
    copied = sum(one.numel() for name, one in begin.items() if dim_of(name) is None)
    return 8 * (1 + _STATES) * (sum(one.numel() for one in begin.values()) + copied) + _FILE_BYTES
