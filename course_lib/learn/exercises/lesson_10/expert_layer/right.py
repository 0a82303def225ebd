"""10.experts: what is expected on each rank, as a report of the step's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_10.call_reports import Outputs
from course_lib.learn.exercises.lesson_10.expert_layer.cases import ROUNDS, SITUATIONS, ExpertsSituation, tokens_of
from course_lib.learn.exercises.lesson_10.expert_layer.oracle import WholeLayer, oracle
from course_lib.learn.exercises.lesson_10.expert_layer.reports import ExpertsValuesReport
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["COSTS", "SEEN", "held_bytes", "right", "rows_between"]

SEEN = ("outputs", "gradients", "balance")
COSTS = ("rows", "pieces", "sent", "sent_back", "calls", "calls_back", "largest", "held", "left")
_CALLS, _CALLS_BACK = 4, 3  # two exchanges of rows, one of counts, and one to spare
_SMALL_BYTES = 1024


def right(label: str, report: type[ExpertsValuesReport]) -> Callable[[int, int], ExpertsValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    return lambda rank, world_size: report.of(_facts(label, rank, world_size))


def _facts(label: str, rank: int, world_size: int) -> dict[str, Any]:
    one = SITUATIONS[label]
    members = one.members(world_size)
    facts: dict[str, Any] = dict.fromkeys((*SEEN, *COSTS), NOT_DEMANDED)
    if rank not in members:
        return facts
    count, place = len(members), members.index(rank)
    outputs, gradients, balance = Outputs(), Outputs(), Outputs()
    for turn in range(ROUNDS - 1):
        for number in range(one.num_layers):
            whole = oracle(label, count, number, turn)
            x, _ = tokens_of(label, count, number, turn)[place]
            outputs.append(whole.outputs[place].view(x.shape).to(one.dtype))
            gradients.append(_due_gradients(one, whole, x, place, count))
            balance.append(torch.tensor(whole.balance, dtype=torch.float64))
    outputs.within = gradients.within = one.within
    balance.within = 1e-6  # counts may have been divided in float32
    facts |= {"outputs": outputs, "gradients": gradients if one.goes_back else NOT_DEMANDED}
    facts |= {"balance": balance if one.balances else NOT_DEMANDED}
    return facts | (_costs(label, one, place, count) if one.is_counted else {})


def _due_gradients(one: ExpertsSituation, whole: WholeLayer, x: Tensor, place: int, count: int) -> dict[str, Tensor]:
    due = {"x": whole.of_x[place].view(x.shape)} if one.needs_x else {}
    due["the router"] = whole.of_router[place]
    if place != one.frozen_place:
        for at, expert in enumerate(one.own_experts(place, count)):
            for which, name in enumerate(("up", "down")):
                of_all = sum(part[which][expert] for part in whole.of_experts)
                due[f"its own expert {at} ({name})"] = torch.as_tensor(of_all)
    return {name: grad.to(one.dtype) for name, grad in due.items()}


def rows_between(label: str, count: int, turn: int) -> Tensor:
    """(ranks, E): how many rows each place has for each expert, those without room left out."""
    one = SITUATIONS[label]
    whole = oracle(label, count, 0, turn)
    pairs = zip(whole.chosen, whole.kept, strict=True)
    return torch.stack([best[has_room].bincount(minlength=one.num_experts(count)) for best, has_room in pairs])


def held_bytes(label: str, place: int, count: int, turn: int) -> int:
    """What may stay from forward to backward.

    Of the rows of this rank's experts: what came, the hidden numbers before and after GELU, and one more. Of the
    choices of this rank's tokens: what came back, twice. Of its tokens: they themselves, and three times what the
    router made of them.
    """
    one = SITUATIONS[label]
    table = rows_between(label, count, turn)
    num_tokens = one.num_tokens(count)[place]
    rows, choices = int(table[:, list(one.own_experts(place, count))].sum()), num_tokens * one.chosen(count)
    numbers = (4 * rows + 2 * choices) * one.width + num_tokens * (one.width + 3 * one.num_experts(count))
    numbers += 3 * (rows + choices)  # places, as whole numbers
    return numbers * one.dtype.itemsize + _SMALL_BYTES


def _costs(label: str, one: ExpertsSituation, place: int, count: int) -> dict[str, Any]:
    table, own = rows_between(label, count, 1), list(one.own_experts(place, count))
    num_experts, choices = one.num_experts(count), one.num_tokens(count)[place] * one.chosen(count)
    come = table[:, own].sum()
    leave = table[place].sum() - table[place, own].sum()
    arrive = come - table[place, own].sum()
    row_bytes = one.width * one.dtype.itemsize
    beside = 8 * (choices + num_experts * count) + 64 * num_experts * one.balances
    most = max(int(come), choices, num_experts, one.width)
    return {
        "rows": int(come),
        "pieces": 1,
        "sent": int((leave + arrive) * row_bytes + beside),
        "sent_back": int((leave + arrive) * row_bytes + beside) if one.goes_back else 0,
        "calls": _CALLS + 2 * one.balances,
        "calls_back": (_CALLS_BACK + one.balances) * one.goes_back,
        "largest": most * one.width,
        "held": held_bytes(label, place, count, ROUNDS - 1) if one.goes_back else NOT_DEMANDED,
        "left": NOTHING,
    }
