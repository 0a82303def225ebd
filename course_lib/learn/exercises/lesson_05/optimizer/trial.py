"""05.optimizer: a few steps with the learner's optimizer on each rank, and what is seen of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.learn.exercises.lesson_05.optimizer.cases import (
    LR,
    MOST_PARTS,
    SHAPES,
    SMALL,
    STEPS,
    flat,
    gradient,
    num_all,
    num_own,
    start,
    start_of_another,
)
from course_lib.learn.exercises.lesson_05.optimizer.reports import OptimizerReport
from course_lib.learn.exercises.lesson_05.optimizer.tries import numbers_alive, sent_by_rings, settled_numbers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, first_unwaited

__all__ = ["trial"]

_NUMBER_BYTES = 8
_MAY_CHANGE = ("weights", "gradients", "hooks", "settings")


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> OptimizerReport:
    parameters = _parameters(kind, me)
    gradients = [_gradients(kind, me, step) for step in range(STEPS)]  # before anything is counted
    others = {id(one) for one in _optimizers()}
    seed = torch.initial_seed()
    kept, before = Kept(ignore=_MAY_CHANGE, parameters=parameters), numbers_alive()
    optimizer = answer(me, iter(parameters), LR)
    if not callable(getattr(optimizer, "step", None)):
        return OptimizerReport.unfinished(made=short(optimizer))
    num_part = num_own(kind, me.world_size)
    enough = before + SMALL + MOST_PARTS * num_part
    sent, unwaited, weights, looks, names = 0.0, NOTHING, [], [], ()
    for step in range(STEPS):
        sent_bytes, names = _one_step(optimizer, me, parameters, gradients[step])
        sent = max(sent, sent_bytes / (_NUMBER_BYTES * num_all(kind)))
        weights.append(flat(parameters).cpu().numpy().copy())
        if changed := kept.changes() or ("the seed of everybody's random numbers" * (torch.initial_seed() != seed)):
            return OptimizerReport.unfinished(kept=changed)  # the next step would meet it
        unwaited = first_unwaited() if unwaited == NOTHING else unwaited
        if step % 2:
            for parameter in parameters:
                parameter.grad = None
            in_tensors = settled_numbers(looks[0] if looks else enough)
            looks.append(in_tensors + numbers_held([optimizer], but=[me, *parameters]))
    return OptimizerReport(
        unwaited=unwaited,
        weights=weights,
        sent=sent,
        operations=names,
        num_states=sum(_num_states(one) for one in _optimizers() if id(one) not in others),
        parts=max(0, min(looks) - before) / num_part,
        growth=max(0, looks[-1] - looks[0] - SMALL),
        second=_by_two(answer, optimizer, me, kind, parameters),
    )


def _by_two(answer: Any, optimizer: Any, me: Rank, kind: str, parameters: Sequence[nn.Parameter]) -> Any:
    """One more step of both models, after a second object was made, which steps first."""
    others = [nn.Parameter(part.clone()) for part in _cut(kind, start_of_another(kind).to(me.device))]
    another = answer(me, iter(others), LR)
    _one_step(another, me, others, _gradients(kind, me, STEPS + 1))
    _one_step(optimizer, me, parameters, _gradients(kind, me, STEPS))
    return flat([*parameters, *others]).cpu().numpy().copy()


def _parameters(kind: str, me: Rank) -> list[nn.Parameter]:
    return [nn.Parameter(part.clone()) for part in _cut(kind, start(kind).to(me.device))]


def _gradients(kind: str, me: Rank, step: int) -> list[Tensor]:
    return _cut(kind, gradient(kind, me.rank, step).to(me.device))


def _cut(kind: str, numbers: Tensor) -> list[Tensor]:
    shapes = [torch.Size(shape) for shape in SHAPES[kind]]
    parts = numbers.split([shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _one_step(
    optimizer: Any, me: Rank, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]
) -> tuple[float, tuple[str, ...]]:
    """Backward and the learner's step: the bytes that were sent, and the names of the operations.

    Gradients that are there from the step before are set to zero in place.
    """
    from course_lib.meter.communication.recorder import Recorder

    with Recorder(me.rank) as recorder:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.detach().zero_()
        products = [(parameter * part).sum() for parameter, part in zip(parameters, gradients, strict=True)]
        torch.stack(products).sum().backward()
        optimizer.step()
    return sent_by_rings(recorder.calls), tuple(call.operation for call in recorder.calls)


def _optimizers() -> list[torch.optim.Optimizer]:
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.optim.Optimizer)]


def _num_states(optimizer: torch.optim.Optimizer) -> int:
    """Numbers in the states that torch's optimizers keep, but for single ones."""
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(value.numel() for value in states if isinstance(value, Tensor) and value.numel() > 1)
