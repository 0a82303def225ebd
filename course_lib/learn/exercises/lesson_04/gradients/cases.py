"""04.gradients: the models on which an answer is tried, what is looked at afterwards, and what is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.tries import (
    ABOUT,
    EXACT,
    KEPT,
    gradients_by_name,
    mixed_replica,
    rank_gradients,
    replica,
    times_sent,
)
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, Report, fact
from course_lib.meter import Call

__all__ = [
    "EQUAL",
    "FIRST",
    "FROZEN",
    "KINDS",
    "MIXED",
    "NOBODY",
    "ONE_LAYER",
    "PLAIN",
    "SECOND",
    "UNUSED",
    "GradientsReport",
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
NOBODY = "a layer that no rank used"
MIXED = "BatchNorm, tied weights, and a layer that rank 0 alone used"
KINDS = (PLAIN, FROZEN, EQUAL, FIRST, UNUSED, NOBODY, SECOND, MIXED)
_USED_BY_ALL_BUT_RANK_1 = {UNUSED: "4.", FIRST: "0.", EQUAL: "1."}  # how the names of that layer begin
_LITTLE = 0.15  # of the gradients' bytes: what goes beyond them by more shows in what was sent


@dataclass(frozen=True, kw_only=True)
class GradientsReport(Report):
    """What a rank has afterwards. ``values``: by name, a word where there is none; ``sent``: in sizes of all."""

    asked_for = "gradients"
    values: Mapping[str, Tensor | str] = fact("the gradients: {difference}", by=EXACT)
    kept: str = fact(KEPT, right=NOTHING)
    sent: float = fact("sent, in sizes of the gradients: {difference}", by=ABOUT)
    replaced: str = fact("gradients that are another tensor than before: {difference}", right="none")
    beside: str = fact("calls beside those for the gradients: {difference}", right="none")


def num_users(kind: str, name: str, world_size: int) -> int:
    """How many ranks used this parameter."""
    return sum(not _has_none(kind, name, rank) for rank in range(world_size))


def _has_none(kind: str, name: str, rank: int) -> bool:
    """Whether this rank did not use the parameter."""
    if kind == MIXED:
        return rank != 0 and name.startswith("6.")
    if kind == NOBODY:
        return name.startswith("2.")
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


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> GradientsReport:
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.meter.communication.recorder import Recorder

    num_groups = len(groups_here())
    model = prepared(kind, me.rank, me.device)
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    size_bytes = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    kept, kept_frozen = Kept(model=model, ignore=("gradients",)), Kept(**_identifiers(frozen))
    if kind == SECOND:
        _take_another_step(answer, me, model)
    before = {name: p.grad for name, p in model.named_parameters()}
    with Recorder(me.rank) as recorder:
        answer(me, model)
    replaced = [name for name, grad in before.items() if _is_another(grad, model.get_parameter(name).grad)]
    groups = "a process group that it made is left behind" if len(groups_here()) != num_groups else ""
    return GradientsReport(
        values=gradients_by_name(model),
        kept=kept.changes() or kept_frozen.changes() or groups or NOTHING,
        sent=times_sent(recorder.calls, size_bytes),
        replaced=", ".join(replaced) or "none",
        beside=_beside(recorder.calls, size_bytes),
    )


def _is_another(before: Tensor | None, now: Tensor | None) -> bool:
    """Whether who holds the gradient of before does not hold what is there now."""
    return before is not None and now is not None and before is not now and before.data_ptr() != now.data_ptr()


def _beside(calls: Sequence[Call], size_bytes: int) -> str:
    """Barriers, and a little that is sent once the all-reduces have sent all that the gradients are."""
    barriers = sum(call.operation == "barrier" for call in calls)
    if barriers:
        return f"{barriers} barrier{'s' * (barriers > 1)}, where each rank waits for all others"
    reduced = sum(call.size_bytes for call in calls if call.operation == "all_reduce")
    others = [call for call in calls if call.operation != "all_reduce"]
    more = reduced - size_bytes + sum(call.size_bytes for call in others)
    if reduced >= size_bytes and 0 < more < _LITTLE * size_bytes:
        return f"{more} bytes more than the gradients have, in {len(calls)} calls"
    return "none"


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
            found[name] = (
                sum((g for g in gradients if g is not None), torch.zeros_like(parameter)).detach() / world_size
            )
    return found


def right(kind: str) -> Callable[[int, int], GradientsReport]:
    def expected(rank: int, world_size: int) -> GradientsReport:
        sent = round(2 * (world_size - 1) / world_size, 1)
        return GradientsReport(values=_means(kind, world_size), sent=sent)

    return expected
