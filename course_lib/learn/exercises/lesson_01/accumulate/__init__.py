"""01.accumulate: one step over a batch that comes in pieces, or micro-batches (gradient accumulation)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_01.accumulate.trial import (
    CHANGE,
    GRADIENT,
    alike,
    step_difference,
    step_over,
    step_result,
)
from course_lib.learn.exercises.lesson_01.tries import behaves_like
from course_lib.learn.judging.judge import by_cases

__all__ = ["ACCUMULATE"]


def _stepper(
    *,
    weight: Callable[[int, int, int], float] = lambda size, total, count: size / total,
    zero_before: bool = True,
    zero_inside: bool = False,
    step_inside: bool = False,
    at_once: bool = False,
) -> Callable[[nn.Module, torch.optim.Optimizer, list], None]:
    """A way to take the step, right but for what the arguments change. ``weight(size, total, count)`` of a piece."""

    def take(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: list) -> None:
        total, losses = sum(len(x) for x, _ in pieces), []
        if zero_before:
            optimizer.zero_grad()
        for x, y in pieces:
            if zero_inside:
                optimizer.zero_grad()
            losses.append(F.cross_entropy(model(x), y) * weight(len(x), total, len(pieces)))
            if not at_once:
                losses.pop().backward()
            if step_inside:
                optimizer.step()
        if at_once:
            torch.stack(losses).sum().backward()
        if not step_inside:
            optimizer.step()

    return take


def _even(size: int, total: int, count: int) -> float:
    return 1 / count


def _whole(size: int, total: int, count: int) -> float:
    return 1.0


_SCALES = (_whole, _even, lambda size, total, count: size / total)


def _any_scale(**how: bool) -> tuple[Callable[..., None], ...]:
    return tuple(_stepper(weight=weight, **how) for weight in _SCALES)


def _as_long_as_the_first(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: list) -> None:
    total = len(pieces) * len(pieces[0][0])
    _stepper(weight=lambda size, _, count: size / total)(model, optimizer, pieces)


def _steps_on_nothing(seen: Evidence) -> bool:
    got = [one.got for one in seen.outcomes]
    return seen.error is None and all(
        one[CHANGE] == "none" and isinstance(one[GRADIENT], torch.Tensor) and not one[GRADIENT].any() for one in got
    )


def _accumulates_like(*variants: Callable[..., None]) -> Callable[[Evidence], bool]:
    return lambda seen: behaves_like(ACCUMULATE, seen, *variants, compare=alike)


ACCUMULATE: Exercise = Exercise(
    name="01.accumulate",
    title="One step over a batch that comes in pieces",
    judge=by_cases(
        [
            Case("pieces of 4 and 4 examples", ((4, 4), "SGD", False), step_result),
            Case("pieces of 5, 5 and 2 examples", ((5, 5, 2), "SGD", False), step_result),
            Case("one piece of 6 examples", ((6,), "SGD", False), step_result),
            Case("gradients left over from before", ((3, 3, 3), "SGD", True), step_result),
            Case("pieces of 1, 7 and 4 examples under AdamW", ((1, 7, 4), "AdamW", True), step_result),
            Case(
                "a model in float32, pieces of 4, 4 and 1 examples",
                ((4, 4, 1), "SGD", False, torch.float32),
                step_result,
            ),
            Case(
                "other pieces of 5, 5 and 2 examples, whose inputs lie transposed",
                ((5, 5, 2), "SGD", False, torch.float64, True),
                step_result,
            ),
        ],
        call=step_over,
        compare=step_difference,
    ),
    mistakes=(
        Mistake(
            "sum-of-means",
            "Your gradient is too long: you added the means of the pieces without weighing them. With four "
            "equal pieces "
            "that is four times the gradient, as if the learning rate had been raised. Each piece counts by its share "
            "of the examples.",
            recognise=_accumulates_like(_stepper(weight=_whole), _stepper(weight=_whole, zero_before=False)),
        ),
        Mistake(
            "mean-of-means",
            "Right for equal pieces and wrong for a short last one. You divided by the number of pieces, so the "
            "examples "
            "of the short piece count for more than the others. Weigh each piece by its share of the examples.",
            recognise=_accumulates_like(_stepper(weight=_even), _stepper(weight=_even, zero_before=False)),
        ),
        Mistake(
            "divided-twice",
            "You divided the loss of a piece by the number of its examples, and `F.cross_entropy` had done so already: "
            "it gives the mean. Multiply that mean by the piece's share of all examples.",
            _stepper(weight=lambda size, total, count: 1 / size),
        ),
        Mistake(
            "divided-by-all",
            "You divided the loss of a piece by the number of all examples, and `F.cross_entropy` had divided it by "
            "those of the piece already. It gives the mean. Multiply that mean by the piece's share of all examples.",
            _stepper(weight=lambda size, total, count: 1 / total),
        ),
        Mistake(
            "as-long-as-the-first",
            "You took all pieces to be as long as the first. The last one is usually shorter: how many examples there "
            "are is the sum of the pieces' lengths.",
            _as_long_as_the_first,
        ),
        Mistake(
            "no-step",
            "No step was taken: `optimizer.step()` was never called. The gradients alone change no weight.",
            recognise=lambda seen: (
                seen.error is None
                and all(o.got[CHANGE] == "none" and isinstance(o.got[GRADIENT], str) for o in seen.outcomes)
            ),
        ),
        Mistake(
            "step-without-gradients",
            "`optimizer.step()` was called, and the weights are as they were: the model had no gradients then. "
            "One of these is so: they were cleared before the step; the step came before the backward passes. Or there "
            "was no backward pass, or it went through another model.",
            recognise=_steps_on_nothing,
        ),
        Mistake(
            "sum-over-examples",
            "You added the losses of all examples and did not divide: the step belongs to the sum over the batch, and "
            "grows with its size. Divide by the number of all examples.",
            _stepper(weight=lambda size, total, count: size),
        ),
        Mistake(
            "cleared-inside",
            "Only your last piece counts: `zero_grad()` inside the loop throws away what the pieces before it "
            "added to "
            "`.grad`. Clear once, before the loop.",
            recognise=_accumulates_like(*_any_scale(zero_inside=True)),
        ),
        Mistake(
            "steps-inside",
            "You took a step after each piece. The second piece then meets other weights than the first: that is "
            "training with a smaller batch. Step once, after the loop.",
            recognise=_accumulates_like(*_any_scale(step_inside=True), *_any_scale(step_inside=True, zero_inside=True)),
        ),
        Mistake(
            "never-cleared",
            "Gradients of an earlier step are still in `.grad`, and yours were added to them: `backward()` adds, it "
            "never clears. Call `optimizer.zero_grad()` before the loop.",
            _stepper(zero_before=False),
        ),
        Mistake(
            "all-at-once",
            "The values are right and the memory is not: more was kept at one time than one piece needs. One "
            "piece at a time: its forward pass, its loss, its `backward()`, which frees what the piece "
            "kept. Then the next piece.",
            _stepper(at_once=True),
        ),
    ),
    hints=(
        "`backward()` adds to `.grad`. So the loop over the pieces needs no sum of its own: clear, let each piece add "
        "its part, step.",
        "`F.cross_entropy` gives the mean over one piece. What share of all examples does the piece have? The "
        "mean over "
        "the batch is the sum of the pieces' means, each times its share.",
        "Inside the loop: `loss = F.cross_entropy(model(x), y) * len(x) / total`, then `loss.backward()`, where "
        "`total` "
        "is the number of examples in all pieces.",
    ),
    passed="Your step is that of the whole batch, with pieces of unequal size too, and one piece is in memory at a "
    "time.",
)
