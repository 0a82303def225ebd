"""07.halves: the backward of one linear layer in two halves, the one that others wait for and the one that can wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.halves.trial import (
    UNTOUCHED,
    HalvesPlan,
    HalvesSeen,
    right_halves,
    try_halves,
)
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_cases

__all__ = ["HALVES"]

_PLANS = {
    "one micro-batch": HalvesPlan(4, 5, 3, "I0 W0"),
    "three micro-batches, second halves in reverse order": HalvesPlan(4, 5, 3, "I0 I1 I2 W2 W1 W0"),
    "as many outputs as inputs, halves mixed": HalvesPlan(7, 4, 4, "I0 I1 W0 I2 W2 W1"),
    "two layers that take turns": HalvesPlan(1, 2, 6, "I0 I1 W1 I2 W0 I3 W2 W3", num_layers=2),
}
_close = close_to(1e-9, 1e-12)


def _compare(expected: Any, got: Any) -> str:
    """What the answer does against the contract is told as it is; then the first wrong value; then what it spends."""
    if not isinstance(expected, HalvesSeen) or not isinstance(got, HalvesSeen):
        return _close(expected, got)
    for found in _only_in_one(got.notes, expected.notes):
        return found
    for i, (want, have) in enumerate(zip(expected.back, got.back, strict=False)):
        if found := _close(want, have):
            return f"the gradient of the inputs, micro-batch {i}: {found}"
    for count, (wants, haves) in enumerate(zip(expected.after, got.after, strict=False), start=1):
        for layer, (want, have) in enumerate(zip(wants, haves, strict=True)):
            if found := "it is None" if have is None else _close(want, have):
                which = f" of layer {layer}" if len(wants) > 1 else ""
                return f"`weight.grad`{which} after {_calls(count)} of a `later()`: {found}"
    return next(iter(_only_in_one(got.costs, expected.costs)), "")


def _only_in_one(one: list[str], other: list[str]) -> list[str]:
    return [note for note in one if note not in other] + [note for note in other if note not in one]


def _calls(count: int) -> str:
    return "one call" if count == 1 else f"{count} calls"


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _halves(
    *,
    inputs: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, g, w: g @ w,
    weights: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, g, w: g.T @ x,
    put: Callable[[Tensor, Tensor], None] = lambda w, made: _add(w, made),
    early: bool = False,
) -> Callable[[Tensor, Tensor, Tensor], Any]:
    def answer(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
        made = weights(x, gradient, weight) if early else None

        def later() -> None:
            put(weight, weights(x, gradient, weight) if made is None else made)

        return inputs(x, gradient, weight), later

    return answer


def _add(weight: Tensor, made: Tensor) -> None:
    assert weight.grad is not None
    weight.grad += made


def _replace(weight: Tensor, made: Tensor) -> None:
    weight.grad = made


def _at_once(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    _add(weight, gradient.T @ x)
    return gradient @ weight, lambda: None


def _mean(x: Tensor, gradient: Tensor, weight: Tensor) -> Tensor:
    return gradient.T @ x / len(x)


def _shows(check: Callable[[HalvesSeen], bool]) -> Callable[[Evidence], bool]:
    """Whether every case came to an end and shows this."""
    return lambda evidence: all(isinstance(o.got, HalvesSeen) and check(o.got) for o in evidence.outcomes)


def _right_but_early(evidence: Evidence) -> bool:
    return all(
        isinstance(o.got, HalvesSeen) and (o.right or (o.got.early and o.difference in o.got.costs))
        for o in evidence.outcomes
    )


def _error_says(words: str) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.error is not None and words in evidence.error.message


HALVES = Exercise(
    name="07.halves",
    title="A backward in two halves",
    judge=by_cases(
        [Case(label, (plan,), right_halves) for label, plan in _PLANS.items()],
        call=try_halves,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "no-function",
            "Return two things: the gradient of the inputs, and a *function* that takes no arguments and does the rest "
            "when it is called. If you wrote `later()`, leave the brackets away.",
            recognise=_shows(lambda seen: seen.no_pair),
        ),
        Mistake(
            "all-at-once",
            "The weight has its gradient before anybody called `later()`. Then the stage before waits for both halves, "
            "which is what an undivided backward does.",
            _at_once,
        ),
        Mistake(
            "computed-too-early",
            "The values are right, but the first half computes the gradient of the weight and `later()` only puts it "
            "in its place. Nothing was put off. Compute inside `later()`.",
            recognise=_right_but_early,
        ),
        Mistake(
            "replaces",
            "What was in `weight.grad` before, from this batch or an earlier one, is gone: `later()` must *add* to it, "
            "as backward does.",
            _halves(put=_replace),
        ),
        Mistake(
            "changes-the-weight",
            "`later()` adds to the weight itself. What is to grow is `weight.grad`; the optimizer changes the weight.",
            recognise=_shows(lambda seen: seen.weight_grew and seen.stays),
        ),
        Mistake(
            "kept-by-nobody",
            "`later()` multiplies, and `weight.grad` is as it was before: nobody keeps the product. What `later()` "
            "returns, or gives a name of its own, is thrown away. Add it to `weight.grad`, in place.",
            recognise=_shows(lambda seen: seen.stays and seen.later_multiplies and UNTOUCHED in seen.notes[:1]),
        ),
        Mistake(
            "product-does-not-fit",
            "Two sides of a product do not fit. Write the shapes beside each: x is (samples, inputs), gradient "
            "(samples, outputs), weight (outputs, inputs). Forward it was `weight.T`; the way back goes through "
            "`weight` as it is.",
            recognise=_error_says("cannot be multiplied"),
        ),
        Mistake(
            "other-way-round",
            "The gradient of the weight has its sides exchanged. It has the shape of the weight, (outputs, inputs): "
            "gradient first, transposed.",
            _halves(weights=lambda x, g, w: x.T @ g),
        ),
        Mistake(
            "passes-it-on",
            "The stage before gets the gradient that came in, unchanged. What it needs is how the loss changes with "
            "*its* output, `x`: through this layer's weight.",
            _halves(inputs=lambda x, g, w: g),
        ),
        Mistake(
            "mean-over-samples",
            "The gradient of the weight is divided by the number of samples. The mean is in the loss already; here the "
            "samples are added up, which the product does.",
            _halves(weights=_mean),
        ),
    ),
    hints=(
        "Forward it was `x @ weight.T`. Two gradients can be had from it. Which of them needs `x`, and which needs "
        "`weight`?",
        "Inputs: `gradient @ weight`, of the shape of x. Weight: `gradient.T @ x`, of the shape of the weight. Neither "
        "needs the other.",
        "def later(): weight.grad += gradient.T @ x; and then return gradient @ weight, later",
    ),
    forbidden=(
        "torch.autograd.backward",
        "torch.Tensor.backward",
        "torch.autograd.functional.vjp",
        "torch.autograd.functional.jacobian",
        "torch.func.vjp",
        "torch.func.grad",
        "course_lib.parallel.pipeline.split_backward.backward_for_inputs",
    ),
    passed="The gradients are the same as autograd's. Neither half was seen to compute what belongs to the other. "
    "The second halves were called later, and in another order.",
)
