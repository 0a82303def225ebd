"""08.gates: the conjugate operators f and g, at the entrance and at the exit of a region that is cut by features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_08.gates.cases import (
    BOTH,
    CROSSED,
    ENTER,
    KEPT_BACK,
    LEAVE,
    SHAPES,
    own,
    right,
    start,
)
from course_lib.learn.exercises.lesson_08.gates.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS, Several, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import leaf, seen_report, weighted_sum
from course_lib.learn.judging.function_class import need_function_class

__all__ = ["GATES", "need_gate"]


class _NoTensor(Exception):
    """A gate gave something that no tensor is: there is nothing to go on with."""

    def __init__(self, given: Any) -> None:
        self.given = given


def _trial(answer: Any, me: Rank, kind: str) -> dict[str, Any]:
    overwritten: list[str] = []
    seen = seen_again(partial(_step, answer, me, kind, overwritten), me.world_size)
    num_summed = torch.Size(SHAPES[kind]).numel()
    report = seen_report(seen, me.world_size, num_summed, whole_tensors=False)
    return {**report, KEPT_BACK: overwritten[0] if overwritten else AS_IT_WAS}


def _step(answer: Any, me: Rank, kind: str, overwritten: list[str], number: int) -> StepSeen:
    leaves = {name: leaf(value, me) for name, value in start(kind, me.rank, number).items()}
    if kind == ENTER:
        leaves = {name: _not_contiguous(one) for name, one in leaves.items()}
    handed = {name: one * 1.0 for name, one in leaves.items()}  # they come from the layers before
    came: list[tuple[Tensor, Tensor]] = []  # a gradient that comes to a gate, and what it was

    def through(tensor: Tensor, is_entrance: bool) -> Tensor:
        passed = answer.apply(tensor, is_entrance)
        if not isinstance(passed, Tensor):
            raise _NoTensor(passed)
        if passed.requires_grad:
            passed.register_hook(lambda grad: came.append((grad, grad.clone())))
        return passed

    def run() -> Any:
        try:
            return _use(kind, through, me.rank, **handed)
        except _NoTensor as error:
            return error.given

    seen = take_step(me, run, leaves, handed, weighted_sum)
    overwritten += ["overwritten" for grad, was in came if not torch.equal(grad, was)]
    return seen


def _not_contiguous(one: Tensor) -> Tensor:
    """The same leaf with its last two dimensions laid out the other way round: a gate keeps any shape."""
    return one.detach().mT.contiguous().mT.requires_grad_()


def _use(kind: str, through: Callable[[Tensor, bool], Tensor], rank: int, **given: Tensor) -> Any:
    if kind == ENTER:  # contiguous again, so that the gradient is: what a layer gives back mostly is
        return own(through(given["x"], True).contiguous(), rank)
    if kind == LEAVE:
        return through(given["x"], False)
    if kind == BOTH:
        return through(own(through(given["x"], True), rank), False)
    entered = own(through(given["x"], True), rank)
    return Several([entered, through(given["partial"], False)])  # gone back through in this order


def need_gate(answer: Any) -> None:
    """Raise ``NotAnAnswer`` for what is no class of a gate."""
    need_function_class(answer, "Gate", "a gate", "x, is_entrance")


GATES = Exercise(
    name="08.gates",
    title="In through one gate, out by the other",
    judge=by_steps(
        tuple(Case(kind, (kind,), right(kind)) for kind in (ENTER, LEAVE, BOTH, CROSSED)),
        _trial,
        check=need_gate,
    ),
    mistakes=MISTAKES,
    hints=(
        "Ask at each gate: does each rank have the complete tensor, or a summand of it? Ask this about the tensor "
        "forward, and about its gradient backward.",
        "Entrance: forward, x is complete; backward, each rank has a summand of its gradient. Exit: the other way "
        "round.",
        "`forward`: `return x.view_as(x) if is_entrance else summed(x)`, and keep the flag in `ctx`. `backward`: "
        "`summed(grad)` at the entrance, `grad` at the exit, and None for the flag.",
    ),
    forbidden=(
        "course_lib.parallel.tensor.autograd_collectives.identity_all_reduce",
        "course_lib.parallel.tensor.autograd_collectives.all_reduce_identity",
    ),
    passed="The entrance sends nothing forward and a sum backward. The exit sends a sum forward and nothing backward.",
)
