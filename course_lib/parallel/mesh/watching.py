"""A training step of a transformer on a mesh, under the meter and the memory ledger: what each rank held, and sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece
from course_lib.meter import Call, MemoryLedger
from course_lib.meter.communication.recorder import Recorder
from course_lib.models import Transformer, TransformerConfig
from course_lib.parallel.mesh.boxes import boxes_of
from course_lib.parallel.mesh.on_mesh import OnMesh

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["WatchedRank", "watched_mesh_step"]

_KINDS = ("parameter", "gradient", "optimizer state")


@dataclass(frozen=True)
class WatchedRank:
    """What one rank held after a step, in bytes by the ledger's names, which pieces of which parameters, and what it
    sent in the step: bytes by axis and by the receiver's rank."""

    held_bytes: dict[str, int]
    pieces: dict[str, Piece]
    sent_bytes: dict[str, dict[int, int]]


def watched_mesh_step(cluster: Cluster, mesh: Mesh, config: TransformerConfig, *, num_rows: int) -> list[WatchedRank]:
    """The second step of ``OnMesh`` with AdamW on ``num_rows`` random sequences, as each of the cluster's ranks saw it.

    The second, because in the first a pipeline tells its shapes and the optimizer makes its states. The average of the
    loss over all ranks, one number, belongs to no axis and is left out. ``RankError`` where a rank fails: also for a
    mesh of another number of ranks, or one that ``OnMesh`` refuses.
    """
    at_least(1, num_rows=num_rows)
    return list(cluster.call(_second_step, args=(mesh, config, num_rows), show=False))


def _second_step(me: Rank, mesh: Mesh, config: TransformerConfig, num_rows: int) -> WatchedRank:
    torch.manual_seed(0)  # all ranks draw the same batch
    model = OnMesh(me, mesh, Transformer(config))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(config.vocab_size, (num_rows, config.context_length + 1))
    batch = model.data.deal(tokens[:, :-1], tokens[:, 1:])
    model.step(*batch)
    optimizer.step()
    dist.barrier()
    optimizer.zero_grad()
    with Recorder(me.rank) as recorder:
        model.step(*batch)
        optimizer.step()
    with MemoryLedger(nn.ModuleList(model.modules), optimizer) as ledger:
        held = ledger.now()
    sent = _by_axis(mesh, me.rank, recorder.calls)
    pieces = {box.name: Piece(box.offsets, box.sizes) for box in boxes_of(model)}
    model.close()
    return WatchedRank({kind: held[kind] for kind in _KINDS}, pieces, sent)


def _by_axis(mesh: Mesh, rank: int, calls: Iterable[Call]) -> dict[str, dict[int, int]]:
    """A message between two ranks is the pipeline's; a collective belongs to the axis along which its group lies."""
    assert dist.group.WORLD is not None
    all_ranks = dist.group.WORLD.group_name
    sent: dict[str, dict[int, int]] = {axis: {} for axis in mesh.axes if mesh.size(axis) > 1}
    axis_of = {mesh.group(rank, axis): axis for axis in sent}
    for call in calls:
        if call.operation != "send" and call.group_name == all_ranks:
            continue
        of_axis = sent["pp" if call.operation == "send" else axis_of[call.group]]
        for receiver, size_bytes in call.sent_bytes.items():
            of_axis[receiver] = of_axis.get(receiver, 0) + size_bytes
    return sent
