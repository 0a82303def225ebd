"""09.assemble: the meshes and models on which an answer is tried, and what one device makes of the same batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from course_lib.cost.model_parallel.tensor_parallel import (
    collectives_sent_bytes,
    split_transformer_collectives,
)
from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.models.pieces import pieces
from course_lib.parallel.model import parameter_costs, split_evenly

__all__ = [
    "FIRSTS",
    "LAYOUTS",
    "LR",
    "NUM_STEPS",
    "ONE_RANK",
    "ROOM",
    "ROOM_SENT",
    "AssembleLayout",
    "batches",
    "losses",
    "make_model",
    "most_kept",
    "most_sent",
    "own_loss",
]

NUM_STEPS, LR, NUM_ROWS = 3, 0.3, 8
ROOM, ROOM_SENT = 1.3, 1.5  # another cut into stages; calls of another kind

_EVEN = TransformerConfig(vocab_size=12, context_length=8, num_layers=2, width=8, num_heads=2, hidden=12)
# Tokens and hidden units do not divide by two, and the slices of two ranks would be cut into other stages.
_UNEVEN = TransformerConfig(vocab_size=13, context_length=20, num_layers=2, width=4, num_heads=2, hidden=9)


@dataclass(frozen=True)
class AssembleLayout:
    """A mesh, as ``Mesh.parse`` reads it, and whether slices of the model are uneven."""

    axes: str
    is_uneven: bool = False

    @property
    def mesh(self) -> Mesh:
        return Mesh.parse(self.axes)

    @property
    def config(self) -> TransformerConfig:
        return _UNEVEN if self.is_uneven else _EVEN


LAYOUTS = {
    label: AssembleLayout(axes, "uneven" in label)
    for label, axes in (
        ("shards of slices", "pp=1 dp_shard=2 tp=2"),
        ("two stages of uneven slices", "pp=2 dp_shard=1 tp=2"),
        ("two stages, sharded", "pp=2 dp_shard=2 tp=1"),
        ("the axes in another order", "tp=2 pp=1 dp_shard=2"),
        ("the axes in another order, two stages", "dp_shard=2 tp=1 pp=2"),
        ("shards alone", "pp=1 dp_shard=4 tp=1"),
    )
}
ONE_RANK = AssembleLayout("pp=1 dp_shard=1 tp=1")
FIRSTS = next(iter(LAYOUTS))


def make_model(layout: AssembleLayout) -> Transformer:
    """The same on every rank, float64, with weights large enough that a wrong gradient shows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        model = Transformer(layout.config).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def batches(layout: AssembleLayout) -> list[tuple[Tensor, Tensor]]:
    """Tokens and targets of each step, (B, T)."""
    draw, config = torch.Generator().manual_seed(5), layout.config
    shape = (NUM_ROWS, config.context_length + 1)
    drawn = [torch.randint(config.vocab_size, shape, generator=draw) for _ in range(NUM_STEPS)]
    return [(tokens[:, :-1], tokens[:, 1:]) for tokens in drawn]


# -- what is right ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def losses(layout: AssembleLayout, factor: float = 1.0) -> tuple[float, ...]:
    """Of one device, before each step; ``factor``: of its gradients."""
    model, found = make_model(layout), []
    optimizer = torch.optim.SGD(model.parameters(), lr=LR * factor)
    for tokens, targets in batches(layout):
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return tuple(found)


@lru_cache(maxsize=32)
def own_loss(layout: AssembleLayout, place: int) -> float:
    """The first loss of one share of the batch, of as many as ``dp_shard`` has places."""
    tokens, targets = (one.chunk(layout.mesh.size("dp_shard"))[place] for one in batches(layout)[0])
    with torch.no_grad():
        return next_token_loss(make_model(layout)(tokens), targets).item()


@lru_cache(maxsize=16)
def most_kept(layout: AssembleLayout) -> float:
    """No rank may keep more numbers than this: stages about equally large, slices, and rows of them."""
    model, mesh = make_model(layout), layout.mesh
    stages = split_evenly(parameter_costs(model), mesh.size("pp"))
    row = [
        sum(_num_kept(name, p.shape, mesh) for name, p in piece.named_parameters()) for piece in pieces(model).values()
    ]
    return ROOM * max(sum(row[place] for place in stage) for stage in stages)


def _num_kept(name: str, shape: tuple[int, ...], mesh: Mesh) -> int:
    is_copied = "norm" in name or "positions" in name  # along tp
    num_slices = 1 if is_copied else mesh.size("tp")
    num_ranks = mesh.size("dp_shard")
    dim = 1 if name.endswith(("w_out.weight", "w_down.weight")) else 0
    sizes = [-(-size // num_slices) if place == dim else size for place, size in enumerate(shape)]
    return -(-sizes[0] // num_ranks) * prod(sizes[1:])


def most_sent(layout: AssembleLayout) -> dict[str, float]:
    """Bytes of a step along an axis, of every rank, where they are known: a rank works on its own samples alone."""
    mesh, config, most = layout.mesh, layout.config, {}
    num_rows = NUM_ROWS // mesh.size("dp_shard")
    if mesh.size("tp") > 1 and mesh.size("pp") == 1:
        calls = split_transformer_collectives(config, batch_size=num_rows, itemsize=8)
        most["tp"] = ROOM_SENT * collectives_sent_bytes(calls, mesh.size("tp"))
    if mesh.size("pp") == 2:
        most["pp"] = ROOM_SENT * num_rows * config.context_length * config.width * 8
    return most
