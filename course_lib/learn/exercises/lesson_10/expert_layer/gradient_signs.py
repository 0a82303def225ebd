"""10.experts: how wrong gradients and a wrong load-balancing loss are told by what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_10.call_reports import near
from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    COARSE,
    SITUATIONS,
    ExpertsSituation,
    layer_weights,
    tokens_of,
)
from course_lib.learn.exercises.lesson_10.expert_layer.oracle import WholeLayer, chosen_experts, mixed, oracle
from course_lib.learn.exercises.lesson_10.expert_layer.reports import ExpertsBackwardReport, ExpertsBalanceReport
from course_lib.learn.exercises.lesson_10.expert_layer.signs import plain_reports
from course_lib.learn.judging.report import Recogniser, differing, reports

__all__ = [
    "balance_is",
    "balance_only_where",
    "experts_are",
    "no_graph",
    "pushes",
    "router_has_none",
    "x_has_one_way",
]

_X, _ROUTER, _EXPERTS = "x", "the router", "its own expert"
_WITHIN = 1e-6


def _place(one: AnswerOutcome) -> tuple[int, int]:
    """This rank's place in its group, and how many there are."""
    members = SITUATIONS[one.kind].members(one.num_ranks)
    return members.index(one.rank), len(members)


def _whole(one: AnswerOutcome) -> WholeLayer:
    return oracle(one.kind, _place(one)[1], 0, 0)


def _alike(want: Tensor, have: Any) -> bool:
    return isinstance(have, Tensor) and have.shape == want.shape and not near(want.double(), have.double(), _WITHIN)


def _with_gradients(evidence: Evidence) -> list[tuple[AnswerOutcome, dict[str, Any]]]:
    """After a first call, wherever gradients are wrong; outputs and loss are right, here and elsewhere."""
    if evidence.error is not None or any({"outputs", "balance"} & differing(one) for one in evidence.wrong):
        return []
    return [
        (one, got.gradients[0])
        for one, got in plain_reports(evidence)
        if isinstance(got, ExpertsBackwardReport) and "gradients" in differing(one) and got.gradients
        if one.kind != COARSE and not _is_right(one, got.gradients[0], "")
    ]


def _each(
    holds: Callable[[AnswerOutcome, dict[str, Any]], bool],
    where: Callable[[ExpertsSituation], bool] = lambda _: True,
) -> Recogniser:
    """Whether this holds wherever gradients are wrong; ``where``: looked at in such situations alone."""

    def recognise(evidence: Evidence) -> bool:
        found = [holds(one, grads) for one, grads in _with_gradients(evidence) if where(SITUATIONS[one.kind])]
        return bool(found) and all(found)

    return recognise


def _is_right(one: AnswerOutcome, grads: dict[str, Any], name: str) -> bool:
    return all(_alike(due, grads.get(key)) for key, due in one.expected.gradients[0].items() if key.startswith(name))


def _is_none(grads: dict[str, Any], name: str) -> bool:
    found = [grad for key, grad in grads.items() if key.startswith(name)]
    return bool(found) and all(grad is None or not bool(grad.any()) for grad in found)


no_graph: Recogniser = _each(lambda _, grads: _is_none(grads, _EXPERTS))
"""Whether the outputs are right, and no expert has a gradient anywhere."""

router_has_none: Recogniser = _each(
    lambda one, grads: _is_none(grads, _ROUTER) and _is_right(one, grads, _EXPERTS),
    where=lambda one: not one.balances,
)
"""Whether the gradients of experts are right, and the router has none."""


def experts_are(what: str) -> Recogniser:
    """Whether the gradients of experts are "own": by this rank's own tokens, or "averaged": divided by the ranks."""

    def holds(one: AnswerOutcome, grads: dict[str, Any]) -> bool:
        place, count = _place(one)
        parts = _whole(one).of_experts
        found = []
        for at, expert in enumerate(SITUATIONS[one.kind].own_experts(place, count)):
            for which, name in enumerate(("up", "down")):
                due = parts[place][which][expert]
                if what == "averaged":
                    due = torch.stack([part[which][expert] for part in parts]).sum(0) / count
                found.append(_alike(due, grads.get(f"{_EXPERTS} {at} ({name})")))
        return count > 1 and all(found)

    return _each(holds)


def _by_experts_alone(one: AnswerOutcome) -> Tensor:
    """The gradient of x of a place by what experts made of it, without what comes by the router."""
    place, count = _place(one)
    router, up, down = (weight.double() for weight in layer_weights(one.kind, count, 0))
    x, grad = (part.double().flatten(0, -2) for part in tokens_of(one.kind, count, 0, 0)[place])
    likely, best = chosen_experts(x, router, SITUATIONS[one.kind].chosen(count))
    kept = _whole(one).kept[place]
    mix = torch.zeros_like(likely).scatter(1, best, likely.gather(1, best) * kept)
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad((mixed(leaf, mix, up, down) * grad).sum(), leaf)
    return found


def _x_has_one_way(one: AnswerOutcome, grads: dict[str, Any]) -> bool:
    """Whether experts and router are right, and that of x comes by one of the two alone."""
    came = grads.get(_X)
    if not isinstance(came, Tensor) or not (_is_right(one, grads, _EXPERTS) and _is_right(one, grads, _ROUTER)):
        return False
    by_experts = _by_experts_alone(one)
    ways = (by_experts, _whole(one).of_x[_place(one)[0]] - by_experts)
    return any(_alike(way.view(came.shape), came) for way in ways)


x_has_one_way: Recogniser = _each(_x_has_one_way)


# -- balance ----------------------------------------------------------------------------------------------------------


def _value_of_own(one: AnswerOutcome) -> float:
    """The mean of the losses that each rank finds among its own tokens."""
    whole, (_, count) = _whole(one), _place(one)
    router = layer_weights(one.kind, count, 0)[0].double()
    found = []
    for best, (x, _) in zip(whole.chosen, tokens_of(one.kind, count, 0, 0), strict=True):
        means = (x.double().flatten(0, -2) @ router.T).softmax(-1).mean(0)
        shares = best.flatten().bincount(minlength=len(router)).double() / best.numel()
        found.append(len(router) * float((shares * means).sum()))
    return sum(found) / count


_VALUES: dict[str, Callable[[AnswerOutcome], float]] = {
    "own": _value_of_own,
    "without E": lambda one: _whole(one).balance / SITUATIONS[one.kind].num_experts(_place(one)[1]),
}


def _wrong_balances(evidence: Evidence) -> list[tuple[AnswerOutcome, ExpertsBalanceReport]]:
    found = [(one, got) for one, got in reports(evidence, ExpertsBalanceReport) if "balance" in differing(one)]
    return [] if evidence.error or any("outputs" in differing(one) for one in evidence.wrong) else found


def balance_is(kind: str) -> Recogniser:
    """Whether the load-balancing loss is wrong, and where ranks have as many tokens it is "own" or "without E"."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            isinstance(got.balance[0], Tensor) and _close(float(got.balance[0]), _VALUES[kind](one))
            for one, got in _wrong_balances(evidence)
            if SITUATIONS[one.kind].order == "equal"
        ]
        return bool(found) and all(found)

    return recognise


def _close(one: float, other: float) -> bool:
    """Whether two losses are one number."""
    return abs(one - other) < 1e-6 * max(1.0, abs(other))


def balance_only_where(holds: Callable[[ExpertsSituation], bool]) -> Recogniser:
    """Whether the load-balancing loss is wrong in such situations alone, and a number."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            holds(SITUATIONS[one.kind]) and isinstance(got.balance[0], Tensor) for one, got in _wrong_balances(evidence)
        ]
        return bool(found) and all(found)

    return recognise


def pushes(times: str) -> Recogniser:
    """Whether the loss is right wherever it was asked for, and the router feels it "not at all", or "once": the ranks
    times too little.
    """

    def holds(one: AnswerOutcome, grads: dict[str, Any]) -> bool:
        situation, (place, count) = SITUATIONS[one.kind], _place(one)
        whole = _whole(one)
        push = whole.of_router[place] - whole.unbalanced[place]
        due = whole.unbalanced[place] + (push / count if times == "once" else 0.0 * push)
        return situation.balances and _alike(due, grads.get(_ROUTER))

    return _each(holds)
