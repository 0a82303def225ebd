"""04.gradients: the models on which an answer is tried, what is looked at afterwards, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.tries import (
    KEPT,
    NOTHING,
    gradients_by_name,
    mixed_replica,
    rank_gradients,
    replica,
    times_sent,
)
from course_lib.learn.judging.mutation_guard import Kept

__all__ = [
    "EQUAL",
    "FIRST",
    "FROZEN",
    "KINDS",
    "MIXED",
    "ONE_LAYER",
    "PLAIN",
    "SECOND",
    "SENT",
    "UNUSED",
    "VALUES",
    "num_users",
    "prepared",
    "right",
    "trial",
]

PLAIN, FROZEN, UNUSED = "three layers", "a frozen layer", "a layer that rank 1 did not use"
EQUAL = "layers of one size, of which rank 1 did not use the second"
FIRST = "a first layer that rank 1 did not use"
ONE_LAYER = 36  # numbers in each layer of EQUAL
SECOND = "a second step of the same model"
MIXED = "BatchNorm, tied weights, and a layer that rank 0 alone used"
KINDS = (PLAIN, FROZEN, EQUAL, FIRST, UNUSED, SECOND, MIXED)
_USED_BY_ALL_BUT_RANK_1 = {UNUSED: "4.", FIRST: "0.", EQUAL: "1."}  # how the names of that layer begin
VALUES, SENT = "the gradients", "sent, in sizes of the gradients"


def num_users(kind: str, name: str, world_size: int) -> int:
    """How many ranks used this parameter."""
    return sum(not _has_none(kind, name, rank) for rank in range(world_size))


def _has_none(kind: str, name: str, rank: int) -> bool:
    """Whether this rank did not use the parameter."""
    if kind == MIXED:
        return rank != 0 and name.startswith("6.")
    unused = _USED_BY_ALL_BUT_RANK_1.get(kind)
    return unused is not None and rank == 1 and name.startswith(unused)


def _model(kind: str, device: torch.device | str) -> nn.Module:
    if kind == MIXED:
        return mixed_replica(device, dropout=0.3)
    if kind == EQUAL:
        return nn.Sequential(*(nn.Linear(6, 6, bias=False) for _ in range(3))).double().to(device)
    return replica(device)


def prepared(kind: str, rank: int, device: torch.device | str = "cpu") -> nn.Module:
    """A replica after the backward pass of this rank."""
    model = _model(kind, device)
    for name, gradient in rank_gradients(model, rank).items():
        parameter = model.get_parameter(name)
        if kind == FROZEN and name.startswith("0."):
            parameter.requires_grad_(False)
        if parameter.requires_grad and not _has_none(kind, name, rank):
            parameter.grad = gradient.to(device)
    return model


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.meter.communication.recorder import Recorder

    num_groups = len(groups_here())
    model = prepared(kind, me.rank, me.device)
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    size_bytes = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    kept, kept_frozen = Kept(model=model, ignore=("gradients",)), Kept(**_identifiers(frozen))
    if kind == SECOND:
        _take_another_step(answer, me, model)
    with Recorder(me.rank) as recorder:
        answer(me, model)
    groups = "a process group that it made is left behind" if len(groups_here()) != num_groups else ""
    return {
        VALUES: gradients_by_name(model),
        KEPT: kept.changes() or kept_frozen.changes() or groups or NOTHING,
        SENT: times_sent(recorder.calls, size_bytes),
    }


def _take_another_step(answer: Callable[..., Any], me: Rank, model: nn.Module) -> None:
    """One before, with gradients of its own."""
    gradients = [parameter.grad for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1.0 + me.rank)
    answer(me, model)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient


def _identifiers(parameters: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    return {f"frozen {name}": parameter for name, parameter in parameters.items()}


@lru_cache(maxsize=32)
def _means(kind: str, world_size: int) -> dict[str, Tensor]:
    models = [prepared(kind, each) for each in range(world_size)]
    found = {}
    for name, parameter in models[0].named_parameters():
        if parameter.requires_grad:
            gradients = [model.get_parameter(name).grad for model in models]
            found[name] = sum(g for g in gradients if g is not None) / world_size
    return found  # type: ignore[return-value]  # the sum of no tensors, 0, does not come up


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        sent = round(2 * (world_size - 1) / world_size, 1)
        return {VALUES: _means(kind, world_size), KEPT: NOTHING, SENT: sent}

    return expected
