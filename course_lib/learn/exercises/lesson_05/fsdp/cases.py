"""05.fsdp: models and units on which a wrapper is tried, what ranks compute with them, and what one process does."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost.data_parallel.sharded import shared_numel
from course_lib.learn.exercises.lesson_04.ddp.models import Named
from course_lib.learn.exercises.lesson_05.fsdp import models

__all__ = [
    "MAX_NORM",
    "SITUATIONS",
    "STEPS",
    "FsdpSituation",
    "OneProcess",
    "compared",
    "first_weights_losses",
    "numbered",
    "oracle",
    "rows_of",
    "saved_elsewhere",
    "scaled",
]

STEPS, MAX_NORM = 3, 0.05
_SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9}
_ADAMW: dict[str, Any] = {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1, "eps": 1e-4}


def rows_of(rank: int, step: int, *, count: int = 4, width: int = 8) -> Tensor:
    """A rank's part of the batch, (count, width)."""
    draw = torch.Generator().manual_seed(1 + rank + 100 * step)
    return torch.randn(count, width, generator=draw, dtype=torch.float64)


def _plain(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    return [call(rows_of(rank, step).to(device)).square().mean()]


def _wide(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    return [call(rows_of(rank, step, count=2, width=40).to(device)).square().mean()]


def _named(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    return [call(rows_of(rank, step).to(device), scale=2.0 + step)["out"].square().mean()]


def _unused(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    return [call(rows_of(rank, step).to(device), rank % 2 == 0).square().mean()]


def _twice(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    """Two forward passes, one without gradients between them, and one backward."""
    first = call(rows_of(rank, step).to(device))
    with torch.no_grad():
        call(rows_of(rank, 50 + step, count=2).to(device))
    return [first.square().mean() + call(rows_of(rank, 20 + step).to(device)).mean()]


def _accumulated(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    """Two losses, each with a backward of its own, before a step."""
    return [call(rows_of(rank, 10 * step + part).to(device)).square().mean() / 2 for part in range(2)]


def _failing(call: Any, rank: int, step: int, device: Any) -> list[Tensor]:
    """Each forward pass fails once, on all ranks, before it goes well."""
    inner = next(one for one in [call, *call.modules()] if isinstance(one, models.Fails))
    inner.fails = True
    with contextlib.suppress(KeyError):
        call(rows_of(rank, 40 + step).to(device))
    inner.fails = False
    return _plain(call, rank, step, device)


@dataclass(frozen=True)
class FsdpSituation:
    """A model, which of its modules are units, and what a rank computes; ``losses``: each has a backward of its own."""

    make: Callable[[], nn.Module]
    units: Callable[[Any], Sequence[nn.Module]]
    losses: Callable[..., list[Tensor]] = _plain
    optimizer_class: type[torch.optim.Optimizer] = torch.optim.AdamW
    defaults: dict[str, Any] = field(default_factory=lambda: _ADAMW)
    prefetch: int | None = None  # None: not given
    is_counted: bool = False
    is_weighed: bool = False
    clips: bool = False
    loads: bool = False
    is_held: bool = False  # what stays in memory after a state was read and loaded
    num_models: int = 1
    is_coarse: bool = False  # values are compared as float32: some are that, or right answers differ in a last digit

    def model(self, device: Any = "cpu", number: int = 0) -> nn.Module:
        """Of all ranks alike."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(50 + number)
            return self.make().to(device)

    def num_units(self) -> int:
        """How many units are gathered: those that were given, and one of what is in none."""
        model = self.model()
        return len(_rows(model, self.units(model)))

    def num_own(self, world_size: int) -> int:
        """How many numbers a rank may keep; whoever cuts each tensor by rows pads most."""
        shapes = [tuple(p.shape) for p in self.model().parameters()]
        return self.num_models * (shared_numel(shapes, world_size) + 8)


def _rows(model: nn.Module, units: Sequence[nn.Module]) -> list[list[nn.Parameter]]:
    seen, rows = set[int](), []
    for each in [*units, model]:
        own = [p for p in each.parameters() if id(p) not in seen]
        seen |= {id(p) for p in own}
        rows += [own] if own else []
    return rows


def _children(model: Any) -> list[nn.Module]:
    return [one for one in model.children() if any(True for _ in one.parameters())]


def _blocks(model: Any) -> list[nn.Module]:
    return list(model.blocks)


def _two(model: Any) -> list[nn.Module]:
    return [model.first, model.second]


def _frozen() -> nn.Module:
    """In one unit a bias does not learn; another is frozen as a whole, between two that learn."""
    model = models.layers()
    for name in ("0.bias", "2.weight", "2.bias"):
        model.get_parameter(name).requires_grad_(False)
    return model


def _transposed() -> nn.Module:
    model = models.layers()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.t().contiguous().t()
    return model


SITUATIONS = {
    "layers": FsdpSituation(models.layers, _children, is_counted=True),
    "blocks, and a rest": FsdpSituation(
        models.Stemmed, _blocks, optimizer_class=torch.optim.SGD, defaults=_SGD, is_counted=True
    ),
    "an input by name": FsdpSituation(lambda: Named().double(), _two, _named),
    "ten wide layers": FsdpSituation(
        models.wide, _children, _wide, torch.optim.SGD, {"lr": 0.01}, is_counted=True, is_weighed=True, prefetch=1
    ),
    "nothing ahead": FsdpSituation(models.wide, _children, _wide, torch.optim.SGD, {"lr": 0.01}, prefetch=0),
    "two ahead": FsdpSituation(models.wide, _children, _wide, torch.optim.SGD, {"lr": 0.01}, prefetch=2),
    "a clip": FsdpSituation(
        models.Stemmed, _blocks, optimizer_class=torch.optim.SGD, defaults=_SGD, clips=True, is_coarse=True
    ),
    "weights of another run": FsdpSituation(models.Stemmed, _blocks, loads=True, is_held=True),
    "frozen parameters": FsdpSituation(_frozen, _children),
    "two dtypes in a unit": FsdpSituation(models.TwoDtypes, lambda model: [model], is_coarse=True),
    "tied weights": FsdpSituation(models.TiedEnds, _two),
    "a layer that odd ranks do not use": FsdpSituation(models.Unused, lambda model: [model], _unused),
    "buffers": FsdpSituation(
        models.normed, lambda model: [model[0], model[2]], _plain, torch.optim.SGD, _SGD, loads=True
    ),
    "weights that are not contiguous": FsdpSituation(_transposed, _children),
    "two forward passes, and one backward": FsdpSituation(models.Stemmed, _blocks, _twice),
    "two backward passes, and one step": FsdpSituation(models.Stemmed, _blocks, _accumulated, torch.optim.SGD, _SGD),
    "a unit that gives two tensors, twice": FsdpSituation(models.Pairs, lambda model: [model.pair]),
    "an error in forward": FsdpSituation(models.Fails, _two, _failing),
    "two models at the same time": FsdpSituation(models.Stemmed, _blocks, num_models=2),
}


@dataclass(frozen=True)
class OneProcess:
    """What one process computes on the rows of all ranks."""

    losses: dict[int, list[list[float]]]  # by rank, then by step
    begin: dict[str, Tensor]
    weights: list[dict[str, Tensor]]  # after each step
    norms: list[float]  # of the mean gradients in each step, before any clip


@lru_cache(maxsize=64)
def oracle(label: str, world_size: int, number: int = 0) -> OneProcess:
    """Of model ``number``. Buffers are those of rank 0, which each rank keeps for itself."""
    situation = SITUATIONS[label]
    model = situation.model(number=number)
    if situation.loads:
        model.load_state_dict(saved_elsewhere(label))
    begin = copy.deepcopy(model.state_dict())
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = situation.optimizer_class(learning, **situation.defaults)  # type: ignore[call-arg]
    losses: dict[int, list[list[float]]] = {rank: [] for rank in range(world_size)}
    weights, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        buffers = [buffer.clone() for buffer in model.buffers()]
        for rank in range(world_size):
            found = situation.losses(model, rank, step, "cpu")
            losses[rank].append([loss.item() for loss in found])
            (torch.stack(found).sum() / world_size).backward()
            for buffer, before in zip(model.buffers(), buffers, strict=True):
                buffer.copy_(before)
        norms.append(nn.utils.get_total_norm([p.grad for p in learning if p.grad is not None]).item())
        if situation.clips:
            nn.utils.clip_grad_norm_(learning, MAX_NORM)
        optimizer.step()
        weights.append({n: p.detach().clone() for n, p in model.named_parameters(remove_duplicate=False)})
    return OneProcess(losses, begin, weights, norms)


def compared(label: str, weights: dict[str, Any]) -> dict[str, Any]:
    """The weights as they are compared."""
    if not SITUATIONS[label].is_coarse:
        return weights
    return {name: one.float() if isinstance(one, Tensor) else one for name, one in weights.items()}


def numbered(states: Sequence[dict[str, Any]], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Those of all models, under the names of each and the number of the second; ``names``: these alone."""
    return {
        name if number == 0 else f"{name} of model {number + 1}": tensor
        for number, state in enumerate(states)
        for name, tensor in state.items()
        if names is None or name in names
    }


@lru_cache(maxsize=64)
def first_weights_losses(label: str, rank: int) -> list[list[float]]:
    """The losses of all steps, each with the weights of the beginning."""
    situation = SITUATIONS[label]
    model = situation.model()
    return [[loss.item() for loss in situation.losses(model, rank, step, "cpu")] for step in range(STEPS)]


@lru_cache(maxsize=16)
def scaled(label: str, world_size: int) -> dict[str, Tensor]:
    """The weights after a first step of SGD that went ``world_size`` times too far."""
    one = oracle(label, world_size)
    return {name: one.begin[name] + world_size * (end - one.begin[name]) for name, end in one.weights[0].items()}


@lru_cache(maxsize=8)
def saved_elsewhere(label: str) -> dict[str, Tensor]:
    """What a run on another number of ranks has saved: the whole model's state, and not that which was wrapped."""
    state = SITUATIONS[label].model(number=7).state_dict()
    return {name: one + 0.25 if one.is_floating_point() else one + 3 for name, one in state.items()}
