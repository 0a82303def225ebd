"""06.backward: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_06.backward.trial import BackwardReport
from course_lib.learn.judging.report import differing, only_wrong, reports

# -- wrong answers ----------------------------------------------------------------------------------------------


def step(
    *,
    leaf: bool = True,
    backward: Callable[..., None] = lambda leaving, gradient: leaving.backward(gradient),
    back: Callable[..., Any] = lambda entering, gradient: entering.grad,
    sends_back: bool = True,
    waits: bool = True,
    scale: Callable[[int], float] = lambda n: 1.0,
    loss_everywhere: bool = False,
    extra: bool = False,
    one_room: bool = False,
    twice: bool = False,
    keeps_graph: bool = False,
    after_loss: Callable[..., None] = lambda loss, leaving: None,
) -> Callable[..., Any]:
    """A right answer but for what the arguments change."""

    def answer(me: Any, part: nn.Module, x: Any, target: Any, loss_of: Any, room: Tensor) -> Any:
        is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
        entering = x if is_first else room
        if not is_first:
            exchange([recv(entering, me.rank - 1)])
            entering.requires_grad_(leaf)
        leaving, loss, gradient = part(entering), None, None
        if twice:
            leaving = part(entering)
        if is_last:
            loss = loss_of(leaving, target) * scale(me.world_size)
            loss.backward(retain_graph=keeps_graph)
            after_loss(loss, leaving)
        else:
            exchange([send(leaving.detach(), me.rank + 1)])
            if loss_everywhere:
                loss = leaving.sum()
                loss.backward()
            if waits:
                gradient = room if one_room else torch.empty_like(leaving)
                exchange([recv(gradient.detach(), me.rank + 1)] * (1 + extra))
                backward(leaving, gradient)
        if not is_first and sends_back:
            exchange([send(back(entering, gradient), me.rank - 1)] * (1 + extra))
        return loss

    return answer


# -- what they leave behind -------------------------------------------------------------------------------------


def is_last(outcome: AnswerOutcome) -> bool:
    """Whether the outcome is of the last rank, which has the loss."""
    return outcome.error is None and outcome.expected.loss is not None


def factors(evidence: Evidence) -> list[tuple[int, float | None]]:
    """For each outcome its number of ranks, and the number by which all gradients are too large, where there is one."""
    return [
        (outcome.num_ranks, _factor(outcome.expected.gradients, report.gradients))
        for outcome, report in reports(evidence, BackwardReport)
    ]


def _factor(want: dict[str, Any], got: dict[str, Any]) -> float | None:
    names = [name for name, gradient in want.items() if isinstance(gradient, Tensor)]
    if not all(isinstance(got[name], Tensor) and got[name].shape == want[name].shape for name in names):
        return None
    wanted, came = (torch.cat([each[name].flatten() for name in names]) for each in (want, got))
    factor = float(came @ wanted / (wanted @ wanted))
    return factor if torch.allclose(came, factor * wanted, rtol=1e-6, atol=1e-10) else None


def is_averaged(evidence: Evidence) -> bool:
    """Whether all gradients are too small by the number of ranks, whatever that is."""
    found = factors(evidence)
    return (
        evidence.error is None
        and bool(found)
        and all(factor is not None and abs(factor * num_ranks - 1) < 1e-6 for num_ranks, factor in found)
    )


def nothing_before_the_end(evidence: Evidence) -> bool:
    """Whether the last rank is right, and on every other not one parameter has a gradient."""
    if evidence.error is not None:
        return False
    last = [outcome for outcome in evidence.outcomes if is_last(outcome)]
    before = [outcome for outcome in evidence.outcomes if not is_last(outcome)]
    return all(not differing(outcome) & {"loss", "gradients"} for outcome in last) and not any(
        isinstance(gradient, Tensor) for outcome in before for gradient in outcome.got.gradients.values()
    )


def waits_for_ever(evidence: Evidence) -> bool:
    """Whether some rank waits for a message, and another has returned without sending it or waits itself."""
    error = evidence.error
    return error is not None and error.kind == "RankTimeout" and bool(evidence.stands.waiting_in("receive"))


def sends_what_is_none(evidence: Evidence) -> bool:
    """Whether a gradient that is None was to be sent."""
    error = evidence.error
    if error is None or loss_without_a_target(evidence):
        return False
    return "'NoneType' object has no attribute" in error.message and "grad" in error.source


def loss_without_a_target(evidence: Evidence) -> bool:
    """Whether a rank asked for the loss where ``target`` is None."""
    error = evidence.error
    return error is not None and "NoneType" in error.message and "in mse_loss" in error.story


def backward_again(evidence: Evidence) -> bool:
    error = evidence.error
    return error is not None and "backward through the graph a second time" in error.message


def sends_more(evidence: Evidence) -> bool:
    return only_wrong("num_bytes", "num_messages")(evidence) and all(
        outcome.got.num_bytes > outcome.expected.num_bytes for outcome in evidence.wrong
    )


def forward_again(evidence: Evidence) -> bool:
    return only_wrong("forwards", "held")(evidence) and any(
        outcome.got.forwards > outcome.expected.forwards for outcome in evidence.wrong
    )


holds_graphs = only_wrong("held")


def returns_something_early(evidence: Evidence) -> bool:
    """Whether a rank before the last gives back a loss."""
    return any(
        not is_last(outcome) and report.loss is not None for outcome, report in reports(evidence, BackwardReport)
    )
