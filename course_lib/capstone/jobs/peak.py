"""The most that a rank of a mesh holds in a step of ``OnMesh``: states, activations, and what is whole for a moment.

An estimate to plan with, by hand and by counting what the memory ledger saw; ``tests/capstone`` holds it against runs.
Of a block, one sequence keeps its input, two norms and the stream between (four streams that every rank of ``tp`` has
whole), and twelve streams of heads and hidden units, which ``tp`` shares.
"""

from __future__ import annotations

from course_lib.cost.mesh.mesh_parts import pieces_of_stages, transformer_pieces
from course_lib.cost.mesh.mesh_state import mesh_state
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.mesh import DATA_AXES, Mesh

__all__ = ["peak_bytes"]

_NUMBER_BYTES = 4
_WHOLE_STREAMS, _SHARED_STREAMS = 4, 12  # of a block, kept for backward
_PASSING_STREAMS = 10  # made and dropped within a block, there and back
_FEW_STREAMS = 4  # the same where backward has just begun
_UNITS = 4.8  # of a sharded model whole at a time: weights of two, their gradients, and these packed to travel


def peak_bytes(job: ScaledJob, mesh: Mesh) -> int:
    """Of the fullest rank."""
    firsts = {mesh.rank_at(pp=stage) if "pp" in mesh.axes else 0: stage for stage in range(mesh.size("pp"))}
    return round(max(_peak_of_stage(job, mesh, rank, stage) for rank, stage in firsts.items()))


def _peak_of_stage(job: ScaledJob, mesh: Mesh, rank: int, stage: int) -> float:
    config, num_stages, tp = job.config, mesh.size("pp"), mesh.size("tp")
    micro_batches = 2 * num_stages if num_stages > 1 else 1
    rows = job.batch_size / mesh.size(*DATA_AXES) / micro_batches
    stream = rows * config.context_length * config.width * _NUMBER_BYTES
    pieces = pieces_of_stages(config, num_stages)[stage]
    blocks = sum(1 for piece in pieces if 0 < piece <= config.num_layers)
    in_flight = min(num_stages - stage, micro_batches)
    kept = in_flight * blocks * (_WHOLE_STREAMS + _SHARED_STREAMS / tp) * stream
    state = mesh_state(config, mesh, rank)
    if mesh.size("dp_shard") == 1 and mesh.size("dp_replicate") == 1 and num_stages == 1:  # no gradients yet, or all
        early = state.parameters + state.optimizer + kept + _FEW_STREAMS * stream
        return max(early, state.total + (kept / blocks + _PASSING_STREAMS * stream))
    if mesh.size("dp_shard") == 1:
        kept += _PASSING_STREAMS * stream
        flat = state.gradients if mesh.size("dp_replicate") > 1 and num_stages > 1 else 0  # packed to travel
        return state.total + max(kept, flat)
    kept += _FEW_STREAMS * stream
    numels = [sum(_numel(parameter.shape) for parameter in transformer_pieces(config)[piece]) / tp for piece in pieces]
    whole, unit = sum(numels) * _NUMBER_BYTES, max(numels) * _NUMBER_BYTES
    if num_stages > 1:  # whole gradients stay until the batch is over, and are added to
        return state.parameters + state.optimizer + kept + 2 * whole + min(whole, 2 * unit + numels[0])
    late = state.total + kept / max(blocks, 1) + _UNITS * unit
    return max(state.parameters + state.optimizer + kept + _UNITS * unit, late)


def _numel(shape: tuple[int, ...]) -> int:
    numel = 1
    for size in shape:
        numel *= size
    return numel
