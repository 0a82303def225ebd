"""05.unit: how usual wrong answers are told by what came of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import permutations

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.unit.cases import ROW, ROWS, SQUARE, TWICE, loss_of, on_one_device, start
from course_lib.learn.exercises.lesson_08.judging import CLOSE
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT, UNWRITTEN
from course_lib.learn.exercises.lesson_08.tries import BACKWARD, OUTPUT, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in

__all__ = [
    "Sign",
    "all_reduced_backward",
    "backward_is_unwritten",
    "first_in",
    "gradient_has_another_shape",
    "input_gradient_by_the_transpose",
    "input_gradient_is",
    "invalid_gradient",
    "multiplied",
    "never_came",
    "of_the_rows_alone",
    "one_part_in_all_places",
    "other_order",
    "others_batches",
    "raised",
    "rows_gradient_is",
    "square_output_is",
    "wrong_only_with_two",
]

Sign = Callable[[Evidence], bool]
_PLACE = re.compile(r"(.*), rank (\d+) of (\d+)")
_OF_ROWS, _OF_X = gradient_of("shard"), gradient_of("x")


def _place(outcome: AnswerOutcome) -> tuple[str, int, int]:
    """Kind, rank and world size; only of a case that is no second call and has no error."""
    found = _PLACE.fullmatch(outcome.case)
    assert found is not None
    return found[1], int(found[2]), int(found[3])


def _square(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, int, int]]:
    """The outcomes of the first kind of case, where no mixed-up dimension raises anything."""
    for outcome in evidence.outcomes:
        if outcome.case.startswith(f"{SQUARE}, rank"):
            _, rank, world_size = _place(outcome)
            yield outcome, rank, world_size


def _same(one: object, other: object) -> bool:
    return not CLOSE(one, other)


def first_in(name: str) -> Sign:
    """Whether something is wrong, and first of all under this name."""
    return lambda evidence: all(differs_in(outcome, name) for outcome in evidence.wrong)


# -- what came, compared with what comes of a mistake --------------------------------------------------------------


def square_output_is(wrong: Callable[[Tensor, Tensor], Tensor]) -> Sign:
    """``wrong(x, weight)`` is what came where a layer is as wide as it is high."""

    def sign(evidence: Evidence) -> bool:
        seen = list(_square(evidence))
        return bool(seen) and all(
            _same(wrong(start(SQUARE, rank, n, 1).inputs["x"], _weight(n)), outcome.got[OUTPUT])
            for outcome, rank, n in seen
        )

    return sign


def _weight(world_size: int) -> Tensor:
    return torch.cat([start(SQUARE, rank, world_size, 1).shards["shard"] for rank in range(world_size)])


def rows_gradient_is(*wrong: Callable[[Tensor, list[Tensor], int], Tensor]) -> Sign:
    """Of a layer as wide as it is high: the outputs are right, and one of ``wrong`` gives the gradient of the rows.

    ``wrong(right, of_all, rank)``: from the right one and every rank's own gradient of the whole weight.
    """

    def comes_of(one: Callable[[Tensor, list[Tensor], int], Tensor], evidence: Evidence) -> bool:
        for outcome, rank, n in _square(evidence):
            of_all = [on_one_device(SQUARE, other, n)[1]["shard"] for other in range(n)]
            expected = one(outcome.expected[_OF_ROWS], of_all, rank)
            if differs_in(outcome, OUTPUT) or not _same(expected, outcome.got[_OF_ROWS]):
                return False
        return any(True for _ in _square(evidence))

    return lambda evidence: any(comes_of(one, evidence) for one in wrong)


def input_gradient_is(*wrong: Callable[[list[Tensor], int], Tensor]) -> Sign:
    """The same of the gradient of x. ``wrong(of_all, rank)``: from those of all ranks."""

    def comes_of(one: Callable[[list[Tensor], int], Tensor], evidence: Evidence) -> bool:
        for outcome, rank, n in _square(evidence):
            of_all = [on_one_device(SQUARE, other, n)[1]["x"] for other in range(n)]
            if differs_in(outcome, OUTPUT) or not _same(one(of_all, rank), outcome.got[_OF_X]):
                return False
        return any(True for _ in _square(evidence))

    return lambda evidence: any(comes_of(one, evidence) for one in wrong)


def input_gradient_by_the_transpose(evidence: Evidence) -> bool:
    """Whether the outputs are right, and the gradient of x is grad Wᵀ, of a layer as wide as it is high."""
    seen = list(_square(evidence))
    return bool(seen) and all(
        not differs_in(outcome, OUTPUT) and _same(_of_output(rank, n) @ _weight(n).T, outcome.got[_OF_X])
        for outcome, rank, n in seen
    )


def _of_output(rank: int, world_size: int) -> Tensor:
    """The gradient that comes to backward."""
    y = on_one_device(SQUARE, rank, world_size)[0][0].clone().requires_grad_()
    return torch.autograd.grad(loss_of(y), y)[0]


def of_the_rows_alone(evidence: Evidence) -> bool:
    """Whether the output has the columns of this rank's rows and no others."""
    return all(
        outcome.error is None and tuple(outcome.got[OUTPUT].shape)[1:] == (ROWS,) for outcome, _, _ in _square(evidence)
    ) and any(True for _ in _square(evidence))


def other_order(evidence: Evidence) -> bool:
    """Whether outputs of a layer as wide as it is high have the ranks' columns, some of them in another order."""
    seen = [(outcome, n) for outcome, _, n in _square(evidence)]
    return any(differs_in(outcome, OUTPUT) for outcome, _ in seen) and all(_has_columns(*one) for one in seen)


def _has_columns(outcome: AnswerOutcome, world_size: int) -> bool:
    got = outcome.got[OUTPUT]
    parts = outcome.expected[OUTPUT].chunk(world_size, dim=1)
    return any(_same(torch.cat(order, dim=1), got) for order in permutations(parts))


def one_part_in_all_places(evidence: Evidence) -> bool:
    """Whether all ranks' columns of the output are those of one rank."""

    def is_repeated(outcome: AnswerOutcome, world_size: int) -> bool:
        came = outcome.got[OUTPUT].chunk(world_size, dim=1)
        of_one = any(_same(part, came[0]) for part in outcome.expected[OUTPUT].chunk(world_size, dim=1))
        return of_one and all(_same(came[0], other) for other in came[1:])

    seen = [(outcome, n) for outcome, _, n in _square(evidence)]
    return bool(seen) and all(is_repeated(*one) for one in seen)


def others_batches(evidence: Evidence) -> bool:
    """Whether each rank's columns of the output are what that rank makes of its own batch."""
    seen = list(_square(evidence))
    return bool(seen) and all(_same(_gathered_outputs(n), outcome.got[OUTPUT]) for outcome, _, n in seen)


def _gathered_outputs(world_size: int) -> Tensor:
    outputs = [on_one_device(SQUARE, rank, world_size)[0][0] for rank in range(world_size)]
    return torch.cat([y.chunk(world_size, dim=1)[rank] for rank, y in enumerate(outputs)], dim=1)


def never_came(evidence: Evidence) -> bool:
    """Whether all outputs are right, and no rows ever got a gradient."""
    return evidence.error is None and all(
        not differs_in(outcome, OUTPUT) and outcome.got[_OF_ROWS] == NO_GRADIENT for outcome in evidence.outcomes
    )


def backward_is_unwritten(evidence: Evidence) -> bool:
    return evidence.error is None and all(outcome.got[_OF_ROWS] == UNWRITTEN for outcome in evidence.wrong)


def wrong_only_with_two(evidence: Evidence) -> bool:
    """Whether single layers are right, and forward is everywhere; backward of two uses fails or differs.

    Not where autograd found a tensor overwritten: its own words say that.
    """
    if raised("modified by an inplace operation")(evidence):
        return False
    gradients = [gradient_of(name) for name in ("x", "second x", "shard", "second shard")]
    return any(True for _ in _square(evidence)) and all(
        outcome.case.startswith((ROW, TWICE)) and (outcome.error is not None or differs_in(outcome, *gradients))
        for outcome in evidence.wrong
    )


def all_reduced_backward(evidence: Evidence) -> bool:
    """Whether all numbers are right, and backward all-reduced something."""
    return all(differs_in(o, BACKWARD) and "all_reduce" in o.got[BACKWARD] for o in evidence.wrong)


# -- what was raised -----------------------------------------------------------------------------------------------


def raised(words: str) -> Sign:
    return lambda evidence: evidence.error is not None and words in evidence.error.message


def invalid_gradient(index: int) -> Sign:
    """Autograd refused the gradient in this place, since it has another shape than what it belongs to."""
    return raised(f"invalid gradient at index {index}")


def gradient_has_another_shape(evidence: Evidence) -> bool:
    """Whether what came for x has the shape of the rows, in the layer as wide as it is high of two ranks."""
    return invalid_gradient(0)(evidence) and f"got [{ROWS}, {2 * ROWS}]" in _said(evidence)


def multiplied(*by: tuple[int, int], at: str = "") -> Sign:
    """Whether a matrix of one of these shapes could not be multiplied with what stood before it, ``at`` such a line."""
    shapes = "|".join(f"{rows}x{columns}" for rows, columns in by)

    def sign(evidence: Evidence) -> bool:
        found = re.search(rf"cannot be multiplied \(\d+x\d+ and ({shapes})\)", _said(evidence))
        return bool(found) and evidence.error is not None and at in evidence.error.source

    return sign


def _said(evidence: Evidence) -> str:
    return "" if evidence.error is None else evidence.error.message
