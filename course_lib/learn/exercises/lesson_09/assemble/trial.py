"""09.assemble: three steps of an answer on a rank, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_05.optimizer.tries import sent_by_rings
from course_lib.learn.exercises.lesson_09.assemble.cases import LR, AssembleLayout, batches, make_model
from course_lib.learn.exercises.lesson_09.assemble.reports import A_NUMBER, TWICE, AssembleReport
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.report import first_unwaited
from course_lib.meter import Call

__all__ = ["trial"]


def trial(answer: Callable[..., Any], me: Rank, layout: AssembleLayout) -> AssembleReport:
    """The report of an answer on this rank."""
    from course_lib.parallel.mesh import MeshGroups

    groups = MeshGroups(me, layout.mesh)
    report = _train(answer(me, groups, make_model(layout)), me, layout)
    groups.close()
    return report


def _train(trained: Any, me: Rank, layout: AssembleLayout) -> AssembleReport:
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.meter.communication.recorder import Recorder

    num_groups = len(groups_here())
    parameters = list(trained.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LR)
    found: list[float] = []
    gave = A_NUMBER
    for tokens, targets in batches(layout):
        optimizer.zero_grad()
        with Recorder(me.rank) as recorder:
            loss = trained.step(tokens.clone(), targets.clone())
        if loss is ...:
            raise NotImplementedError("Your turn")
        if _is_number(loss):
            found.append(float(loss))
        else:  # and go on: the other ranks do
            gave = short(loss.detach() if isinstance(loss, Tensor) else loss)
        optimizer.step()
    begun = first_unwaited()
    added = _after_once_more(trained, parameters, layout)  # on every rank: each waits for the others
    if gave != A_NUMBER:
        return AssembleReport.without_a_loss(gave)
    first, *later = found
    return AssembleReport(
        unwaited=begun,
        first=first,
        later=later,
        kept_numbers=sum(parameter.numel() for parameter in parameters),
        sent=_sent(recorder.calls, layout.mesh, me.rank),  # in the last step, when all shapes are known
        messages=sum(call.operation == "send" for call in recorder.calls),
        added=added,
        groups=max(0, len(groups_here()) - num_groups),
    )


def _after_once_more(trained: Any, parameters: Sequence[Tensor], layout: AssembleLayout) -> str:
    """What two steps with one batch and the same weights leave in the gradients, beside what one leaves."""
    tokens, targets = batches(layout)[-1]
    for parameter in parameters:
        parameter.grad = None
    sums = []
    for _ in range(2):
        trained.step(tokens.clone(), targets.clone())
        sums.append([parameter.grad.clone() for parameter in parameters if parameter.grad is not None])
    once, twice = sums
    if len(once) == len(twice) and all(map(torch.allclose, twice, [2 * one for one in once])):
        return TWICE
    return "as they were" if all(map(torch.allclose, twice, once)) else "something else than twice as large"


def _is_number(loss: Any) -> bool:
    if isinstance(loss, Tensor):
        return loss.numel() == 1 and not loss.is_complex()
    return isinstance(loss, Real) and not isinstance(loss, bool)


def _sent(calls: Sequence[Call], mesh: Mesh, rank: int) -> dict[str, float]:
    """Bytes along ``tp`` in collectives, and along ``pp`` in messages."""
    messages = [call for call in calls if call.operation == "send"]
    others = [call for call in calls if call.operation not in ("send", "recv")]
    slices = [call for call in others if call.group == mesh.group(rank, "tp")]
    return {
        "tp": sent_by_rings(slices) if mesh.size("tp") > 1 else 0.0,
        "pp": float(sum(sum(call.sent_bytes.values()) for call in messages)),
    }
