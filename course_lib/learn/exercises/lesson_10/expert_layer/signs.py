"""10.experts: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_10.call_reports import first_wrong_in, near, repeats_the_first
from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    COARSE,
    SITUATIONS,
    ExpertsSituation,
    layer_weights,
    tokens_of,
)
from course_lib.learn.exercises.lesson_10.expert_layer.oracle import all_outputs, chosen_experts, mixed, with_room
from course_lib.learn.exercises.lesson_10.expert_layer.reports import ExpertsValuesReport
from course_lib.learn.judging.report import Recogniser, differing, reports

__all__ = [
    "costs",
    "costs_where",
    "first_wrong_in",
    "gave",
    "keeps_an_earlier_one",
    "loses_the_dtype",
    "only_coarse",
    "plain_reports",
]

_SEEN = {"outputs", "gradients", "balance"}


def plain_reports(evidence: Evidence) -> list[tuple[AnswerOutcome, Any]]:
    """Each report of a rank that took part, where one layer was called once a turn."""
    return [
        (one, got)
        for one, got in reports(evidence, ExpertsValuesReport)
        if isinstance(got.outputs, list) and SITUATIONS[one.kind].num_layers == 1
    ]


# -- outputs ----------------------------------------------------------------------------------------------------------


def gave(kind: str, *, with_a_limit: bool = False) -> Recogniser:
    """Whether an output is wrong, and each wrong one of a first call is what this slip makes.

    ``with_a_limit``: whether it shows where experts have a limit, and there alone.
    """

    def recognise(evidence: Evidence) -> bool:
        wrong = [(one, got) for one, got in plain_reports(evidence) if "outputs" in differing(one)]
        if with_a_limit and not all(SITUATIONS[one.kind].capacity_factor for one, _ in wrong):
            return False
        looked = [(one, got) for one, got in wrong if with_a_limit or not SITUATIONS[one.kind].capacity_factor]
        found = [
            _is_slip(one, got.outputs[0], kind)
            for one, got in looked
            if one.kind != COARSE and near(one.expected.outputs[0], got.outputs[0], 1e-7)
        ]
        return evidence.error is None and bool(found) and all(found)

    return recognise


def _is_slip(outcome: AnswerOutcome, out: Any, kind: str) -> bool:
    if not isinstance(out, Tensor):
        return False
    slip, due = _slip(outcome.kind, outcome.num_ranks, outcome.rank, kind), outcome.expected.outputs[0].double()
    if slip.numel() != out.numel():
        return False
    slip = slip.view(due.shape)
    is_right = not near(slip, due, 1e-7)
    return not is_right and not near(slip, out.double(), 1e-7)


@lru_cache(maxsize=256)
def _slip(label: str, world_size: int, rank: int, kind: str) -> Tensor:
    """What a rank gives in the first call by one of the usual slips."""
    one, members = SITUATIONS[label], SITUATIONS[label].members(world_size)
    count, place = len(members), members.index(rank)
    router, up, down = (weight.double() for weight in layer_weights(label, count, 0))
    x = tokens_of(label, count, 0, 0)[place][0].double().flatten(0, -2)
    likely, best = chosen_experts(x, router, one.chosen(count))
    weights = likely.gather(1, best)
    kept = _kept_by(one, kind, best, weights, len(router))
    mix = torch.zeros_like(likely).scatter(1, best, weights * kept)
    if kind == "as sorted":
        order = best.flatten().argsort(stable=True)
        made = all_outputs(x, up, down)[order // best.size(1), best.flatten()[order]]
        return (made.view(*best.shape, -1) * weights.unsqueeze(-1)).sum(1)
    if kind == "own":
        others = torch.ones(len(router), dtype=torch.bool)
        others[list(one.own_experts(place, count))] = False
        mix[:, others] = 0
    elif kind == "unweighted":
        mix = (mix > 0).double()
    elif kind == "normalised":
        mix = mix / mix.sum(1, keepdim=True)
    elif kind == "everyone":
        mix = likely
    return mixed(x, mix, up, down)


def _kept_by(one: ExpertsSituation, kind: str, best: Tensor, weights: Tensor, num_experts: int) -> Tensor:
    """Which choices have room, (N, k), by the slip of this kind; as they should, by any other."""
    if one.capacity_factor is None or kind == "no limit":
        return torch.ones_like(best, dtype=torch.bool)
    if kind == "without k":
        return with_room(replace(one, capacity_factor=one.capacity_factor / best.size(1)), best, num_experts)
    turns = {
        "token after token": torch.arange(best.numel()),
        "the likeliest first": weights.flatten().argsort(descending=True, stable=True),
    }
    if kind not in turns:
        return with_room(one, best, num_experts)
    room = math.ceil(one.capacity_factor * best.numel() / num_experts)
    left, kept = [room] * num_experts, torch.ones(best.numel(), dtype=torch.bool)
    for choice in turns[kind].tolist():
        expert = int(best.flatten()[choice])
        kept[choice] = left[expert] > 0
        left[expert] -= 1
    return kept.view_as(best)


keeps_an_earlier_one = repeats_the_first(plain_reports)


def loses_the_dtype(evidence: Evidence) -> bool:
    """Whether something is wrong in narrow numbers alone, and it is the dtype."""
    return _only_in_coarse(evidence) and all("expected the type" in one.difference for one in evidence.wrong)


def only_coarse(evidence: Evidence) -> bool:
    """Whether outputs or gradients are wrong in narrow numbers alone, whose dtype is right."""
    return _only_in_coarse(evidence) and not any("expected the type" in one.difference for one in evidence.wrong)


def _only_in_coarse(evidence: Evidence) -> bool:
    wrong = evidence.wrong
    return (
        evidence.error is None and bool(wrong) and all(one.kind == COARSE and differing(one) & _SEEN for one in wrong)
    )


# -- costs ------------------------------------------------------------------------------------------------------------


def costs(*names: str, but: tuple[str, ...] = ()) -> Recogniser:
    """Whether all values are right, one of these costs is too high somewhere, and none of ``but``."""
    return costs_where(lambda _: True, *names, but=but)


def costs_where(holds: Callable[[ExpertsSituation], bool], *names: str, but: tuple[str, ...] = ()) -> Recogniser:
    """The same, and whatever is wrong is so in these situations alone. A later case may have ended with an error."""

    def recognise(evidence: Evidence) -> bool:
        wrong = [one for one in evidence.wrong if one.error is None]
        found = [(holds(SITUATIONS[one.kind]), differing(one)) for one in wrong]
        if any(names_of & {*_SEEN, "kept", "made"} for _, names_of in found):
            return False
        is_there = any(names_of & {*names} for _, names_of in found)
        return is_there and all(there and not names_of & {*but} for there, names_of in found)

    return recognise
