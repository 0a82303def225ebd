"""09.mesh: models, batches and meshes on which a trainer is tried, and what one process gives for them.

A *habit* is a way to go wrong that one process can have, too: what it gives then tells the mistake apart from others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.layouts.mesh import Mesh
from course_lib.layouts.row_partition import split_sizes
from course_lib.models.loss import next_token_loss
from course_lib.models.transformer import Transformer, TransformerConfig
from course_lib.parallel.model.cutting import parameter_costs, split_evenly

__all__ = [
    "AWKWARD",
    "CHECKPOINT",
    "LIMITED",
    "MESSAGES",
    "NEW_SEED",
    "ONE_RANK",
    "PLAIN",
    "SHARDS",
    "SITUATIONS",
    "STAGES",
    "MeshSituation",
    "MeshSteps",
    "TrainedRun",
    "batch_of",
    "dim_of",
    "first_gradients",
    "learning_at",
    "oracle",
    "part_at",
    "stage_of",
]

NEW_SEED = 90  # of the weights of who loads a checkpoint
_SIZES: dict[str, Any] = {"vocab_size": 12, "context_length": 6, "num_layers": 3, "width": 8}
_SIZES |= {"num_heads": 4, "hidden": 12}
_LARGE: dict[str, Any] = {"num_layers": 2, "width": 24, "hidden": 96, "vocab_size": 24}
_DIMS = {**dict.fromkeys(("tokens", "w_vocab", "w_q", "w_k", "w_v", "w_up"), 0), "w_out": 1, "w_down": 1}
_SGD: tuple[Any, dict[str, Any]] = (torch.optim.SGD, {"lr": 0.3, "momentum": 0.9})
_ADAM: tuple[Any, dict[str, Any]] = (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.1})
_BARE: tuple[Any, dict[str, Any]] = (torch.optim.SGD, {"lr": 0.3})


@dataclass(frozen=True)
class MeshSituation:
    """A mesh of four ranks, a model and batches. ``stop``: the steps before a checkpoint, which ``other`` loads."""

    axes: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    optimizer: tuple[Any, dict[str, Any]] = _SGD
    rows: int = 8
    num_micro_batches: int = 2
    num_steps: int = 3
    max_norm: float | None = None
    frozen: tuple[str, ...] = ()  # how names of parameters begin that do not learn
    other: str = ""
    stop: int = 0
    is_weighed: bool = False
    is_counted: bool = False

    @property
    def config(self) -> TransformerConfig:
        return TransformerConfig(**(_SIZES | dict(self.sizes)))

    @property
    def is_large(self) -> bool:
        """Whether its numbers weigh more than what is around them."""
        return self.config.hidden == _LARGE["hidden"]

    def mesh(self, num_ranks: int, *, after: bool = False) -> Mesh:
        """The mesh, or the one ``after`` the checkpoint; on one rank all axes have size 1."""
        mesh = Mesh.parse(self.other if after and self.other else self.axes)
        return mesh if mesh.num_ranks == num_ranks else Mesh.of(**dict.fromkeys(mesh.axes, 1))

    def model(self, seed: int = 3) -> Transformer:
        """The whole model in float64, the same wherever it is made; norms and biases are not as they begin."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Transformer(self.config).double()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter), alpha=0.2)
        for name, parameter in model.named_parameters(remove_duplicate=False):
            parameter.requires_grad_(not (self.frozen and name.startswith(self.frozen)))
        return model


_D2T2, _T2D2, _P2T2, _D2P2 = (
    "pp=1 dp_shard=2 tp=2",
    "tp=2 dp_shard=2 pp=1",
    "pp=2 dp_shard=1 tp=2",
    "dp_shard=2 pp=2 tp=1",
)
_FROM_HEAD_ON = ("stem", "blocks.0", "blocks.1")  # all of the first stage, and more
SITUATIONS = {
    "data and slices": MeshSituation(_D2T2, optimizer=_ADAM),
    "data alone": MeshSituation("pp=1 dp_shard=4 tp=1"),
    "slices and data, biases": MeshSituation(_T2D2, {"bias": True}),
    "stages and slices": MeshSituation(_P2T2, optimizer=_ADAM),
    "data and stages": MeshSituation(_D2P2, num_micro_batches=4),
    "four stages": MeshSituation("tp=1 pp=4 dp_shard=1", num_micro_batches=3),
    "states, weighed": MeshSituation("pp=1 dp_shard=4 tp=1", _LARGE, optimizer=_ADAM, is_weighed=True),
    "messages of data and slices": MeshSituation(_D2T2, _LARGE, is_counted=True),
    "messages of data and stages": MeshSituation(_D2P2, _LARGE, is_counted=True),
    "messages of stages and slices": MeshSituation(_P2T2, _LARGE, is_counted=True),
    "a limit, data and slices": MeshSituation(_D2T2, _LARGE, max_norm=0.1, is_counted=True),
    "a limit, stages and slices": MeshSituation(_P2T2, _LARGE, max_norm=0.1, is_counted=True),
    "a limit, data and stages": MeshSituation(_D2P2, _LARGE, max_norm=0.1, is_counted=True),
    "a checkpoint, loaded on the same mesh": MeshSituation(_D2T2, optimizer=_ADAM, num_steps=5, stop=2, other=_D2T2),
    "a checkpoint, loaded with stages": MeshSituation(_D2T2, _LARGE, _ADAM, num_steps=5, stop=2, other=_D2P2),
    "a checkpoint, loaded without stages": MeshSituation(_P2T2, optimizer=_ADAM, num_steps=5, stop=2, other=_T2D2),
    "one matrix for tokens and scores": MeshSituation(_P2T2, {"tied": True}, max_norm=0.5),
    "one matrix, four stages": MeshSituation("pp=4 dp_shard=1 tp=1", {"tied": True}, max_norm=0.5),
    "one matrix, loaded on another mesh": MeshSituation(
        _D2T2, {"tied": True}, _ADAM, num_steps=4, stop=2, other=_P2T2, max_norm=0.5
    ),
    "a frozen stage": MeshSituation(_D2P2, optimizer=_ADAM, frozen=_FROM_HEAD_ON, max_norm=0.1),
    "frozen weights, loaded on another mesh": MeshSituation(
        _P2T2, {"bias": True}, num_steps=4, stop=2, other=_D2T2, frozen=("stem", "blocks.1", "head.norm")
    ),
    "a batch that does not divide": MeshSituation(_D2P2, rows=7),
    "sizes that do not divide": MeshSituation(_D2T2, {"vocab_size": 13, "hidden": 11, "width": 4}, rows=5),
    "an optimizer without states": MeshSituation(_D2T2, optimizer=_BARE, num_steps=4, stop=2, other=_D2P2),
}
ONE_RANK = "one rank"
SITUATIONS[ONE_RANK] = MeshSituation("pp=1 dp_shard=1 tp=1", optimizer=_ADAM, num_steps=4, stop=2, max_norm=0.5)
_NAMES = tuple(SITUATIONS)
PLAIN, STAGES, SHARDS, MESSAGES, LIMITED = _NAMES[:3], _NAMES[3:6], _NAMES[6:7], _NAMES[7:10], _NAMES[10:13]
CHECKPOINT, AWKWARD = _NAMES[13:16], _NAMES[16:-1]


def batch_of(label: str, step: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets of all ranks, (B, T) each."""
    situation = SITUATIONS[label]
    draw = torch.Generator().manual_seed(8 + step)
    shape = situation.rows, situation.config.context_length + 1
    tokens = torch.randint(situation.config.vocab_size, shape, generator=draw)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


# -- who holds what ----------------------------------------------------------------------------------------------------


def dim_of(name: str) -> int | None:
    """Along which dim tp cuts a parameter of this name; None where it is whole."""
    layer, kind = name.split(".")[-2:]
    dim = _DIMS.get(layer)
    return None if kind == "bias" and dim == 1 else dim


@lru_cache(maxsize=64)
def _stages(label: str, num_stages: int) -> tuple[range, ...]:
    return tuple(split_evenly(parameter_costs(SITUATIONS[label].model()), num_stages))


def stage_of(label: str, name: str, num_stages: int) -> int:
    """The stage that has this parameter."""
    piece = {"stem": 0, "head": SITUATIONS[label].config.num_layers + 1}.get(name.split(".")[0])
    piece = 1 + int(name.split(".")[1]) if piece is None else piece
    return next(number for number, stage in enumerate(_stages(label, num_stages)) if piece in stage)


def part_at(label: str, mesh: Mesh, rank: int, wholes: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a rank holds of these, by name."""
    here, found = mesh.coordinates(rank), {}
    for name, whole in wholes.items():
        if stage_of(label, name, mesh.size("pp")) == here["pp"]:
            dim = dim_of(name)
            cut = whole if dim is None else whole.split(split_sizes(whole.size(dim), mesh.size("tp")), dim)[here["tp"]]
            found[name] = cut.contiguous()
    return found


def learning_at(label: str, mesh: Mesh, rank: int) -> int:
    """How many numbers learn on a rank, a tied matrix once."""
    model, has_both_ends = SITUATIONS[label].model(), mesh.size("pp") == 1
    named = model.named_parameters(remove_duplicate=has_both_ends)
    wholes = {name: p.detach() for name, p in named if p.requires_grad}
    return sum(part.numel() for part in part_at(label, mesh, rank, wholes).values())


# -- one process -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeshSteps:
    """Of each step the loss and the norm of the gradient before the clip."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]


@dataclass(frozen=True)
class TrainedRun:
    """The steps of one process, and its weights at the beginning and at the end, by all names."""

    steps: MeshSteps
    begin: dict[str, Tensor]
    end: dict[str, Tensor]


@lru_cache(maxsize=512)
def oracle(label: str, habit: str = "", times: float = 1.0) -> TrainedRun:
    """One process on this situation. Habits, of which ``times`` is a factor:

    ``times``: all gradients are multiplied; ``copies``: those of what tp copies are; ``piled``: nobody sets gradients
    back, and those that were there are multiplied; ``free``: nobody limits the norm. After the checkpoint ``states``,
    ``count`` (of AdamW's steps) or ``weights`` are lost.
    """
    situation = SITUATIONS[label]
    model, losses, norms = situation.model(), [], []
    kind, defaults = situation.optimizer
    optimizer = kind([p for p in model.parameters() if p.requires_grad], **defaults)
    begin = _all_named(model)
    for step in range(situation.num_steps):
        if step == situation.stop and situation.stop:
            _lose(habit, situation, model, optimizer)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad * times if habit == "piled" else None
        tokens, targets = batch_of(label, step)
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and (habit == "times" or (habit == "copies" and dim_of(name) is None)):
                parameter.grad *= times
        norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item())
        if situation.max_norm is not None and habit != "free":
            nn.utils.clip_grad_norm_(model.parameters(), situation.max_norm)
        optimizer.step()
        losses.append(loss.item())
    return TrainedRun(MeshSteps(tuple(losses), tuple(norms)), begin, _all_named(model))


def _all_named(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters(remove_duplicate=False)}


def _lose(habit: str, situation: MeshSituation, model: nn.Module, optimizer: Any) -> None:
    if habit == "states":
        optimizer.state.clear()
    if habit == "count":
        for state in optimizer.state.values():
            state["step"].zero_()
    if habit == "weights":
        model.load_state_dict(situation.model(NEW_SEED).state_dict())


@lru_cache(maxsize=64)
def first_gradients(label: str) -> dict[str, Tensor]:
    """Of the whole model in the first step, by first names."""
    model = SITUATIONS[label].model()
    tokens, targets = batch_of(label, 0)
    next_token_loss(model(tokens), targets).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
