"""07.halves: the backward of one linear layer in two halves, the one that others wait for and the one that can wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.compare import close_to, short
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import by_cases
from course_lib.learn.products import Products

__all__ = ["HALVES"]

_IN, _OUT = 5, 3
_NOW, _LATER, _BEFORE = "gradient of the inputs", "gradient of the weight, after later()", "and before it"
_FIRST, _SECOND = "products in the first half", "products in later()"
_WEIGHT = "the weight itself"


def _inputs(num_samples: int, number: int) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(10 * num_samples + number)
    x = torch.randn(num_samples, _IN, generator=made, dtype=torch.float64)
    return x, torch.randn(num_samples, _OUT, generator=made, dtype=torch.float64)


def _weight() -> Tensor:
    return torch.arange(_OUT * _IN, dtype=torch.float64).reshape(_OUT, _IN) / 7


def _gradient() -> Tensor:
    """What an earlier batch has left in ``weight.grad``, to which everything is added."""
    return torch.full((_OUT, _IN), 0.5, dtype=torch.float64)


def _right(num_samples: int, num_micro_batches: int) -> dict[str, Any]:
    """By autograd, on the layer in one piece."""
    weight = _weight().requires_grad_()
    weight.grad = _gradient()
    found: dict[str, Any] = {_NOW: [], _BEFORE: "untouched", _WEIGHT: "as it was"}
    for number in range(num_micro_batches):
        x, gradient = _inputs(num_samples, number)
        x.requires_grad_()
        torch.nn.functional.linear(x, weight).backward(gradient)
        found[_NOW].append(x.grad)
    found[_LATER] = weight.grad
    return found | {_FIRST: num_micro_batches, _SECOND: num_micro_batches}


def _call(answer: Callable[..., Any], num_samples: int, num_micro_batches: int) -> Any:
    """First halves of all micro-batches, then the second halves, the last one first."""
    weight = _weight()
    weight.grad = _gradient()
    made: list[Any] = []
    with Products() as first:
        for number in range(num_micro_batches):
            made.append(answer(*_inputs(num_samples, number), weight))
    if any(one is ... for one in made):
        return ...
    if not all(isinstance(one, tuple | list) and len(one) == 2 and callable(one[1]) for one in made):
        return f"expected a tensor and a function, got {short(made[0])}"
    before = "untouched" if weight.grad is not None and torch.equal(weight.grad, _gradient()) else "changed"
    with Products() as second:
        for _, later in reversed(made):
            later()
    return {
        _NOW: [one for one, _ in made],
        _BEFORE: before,
        _WEIGHT: "as it was" if torch.equal(weight, _weight()) else "changed",
        _LATER: weight.grad,
        _FIRST: first.count,
        _SECOND: second.count,
    }


def _compare(expected: Any, got: Any) -> str:
    """What came is told as it is where it is no such pair; else the first difference."""
    return got if isinstance(got, str) and got != expected else close_to(1e-9, 1e-12)(expected, got)


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


def _change_weight(weight: Tensor, made: Tensor) -> None:
    weight += made


def _forget(weight: Tensor, made: Tensor) -> None:
    """Made, and kept by nobody."""


def _at_once(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    _add(weight, gradient.T @ x)
    return gradient @ weight, lambda: None


def _called_already(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    back, later = _halves()(x, gradient, weight)
    return back, later()


def _mean(x: Tensor, gradient: Tensor, weight: Tensor) -> Tensor:
    return gradient.T @ x / len(x)


def _no_pair_came(evidence: Evidence) -> bool:
    return all(isinstance(outcome.got, str) for outcome in evidence.outcomes)


def _error_says(words: str) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.error is not None and words in evidence.error.message


def _seen(name: str, what: Any) -> Callable[[Evidence], bool]:
    return lambda evidence: all(isinstance(o.got, dict) and o.got[name] == what for o in evidence.outcomes)


def _stays_empty(evidence: Evidence) -> bool:
    """The weight's gradient is as large as it was at the beginning, though all is computed at its time."""
    return all(
        isinstance(o.got, dict)
        and o.got[_SECOND] == o.expected[_SECOND]
        and torch.equal(o.got[_LATER], _gradient())
        for o in evidence.outcomes
    )


def _by_autograd(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    weight.requires_grad_()
    entering = x.clone().requires_grad_()
    torch.autograd.backward(torch.nn.functional.linear(entering, weight), gradient)
    return entering.grad, lambda: None


HALVES = Exercise(
    name="07.halves",
    title="A backward in two halves",
    judge=by_cases(
        [
            Case("one micro-batch", (4, 1), _right),
            Case("three micro-batches, second halves in reverse order", (4, 3), _right),
        ],
        call=_call,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "no-function",
            "Return two things: the gradient of the inputs, and a *function* that takes no arguments and does the rest "
            "when it is called. If you wrote `later()`, leave the brackets away.",
            _called_already,
            _no_pair_came,
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
            "in its place. Two products in the first half, none in the second: nothing was put off. Compute inside "
            "`later()`.",
            _halves(early=True),
            lambda evidence: all(
                isinstance(o.got, dict) and o.got[_FIRST] >= 2 * o.expected[_FIRST] for o in evidence.outcomes
            ),
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
            _halves(put=_change_weight),
            _seen(_WEIGHT, "changed"),
        ),
        Mistake(
            "kept-by-nobody",
            "`later()` computes the gradient of the weight, and nobody keeps it: what it returns is thrown away. Add "
            "it to `weight.grad`, in place.",
            _halves(put=_forget),
            _stays_empty,
        ),
        Mistake(
            "product-does-not-fit",
            "Two sides of a product do not fit. Write the shapes beside each: x is (samples, inputs), gradient "
            "(samples, outputs), weight (outputs, inputs). Forward it was `weight.T`; the way back goes through "
            "`weight` as it is.",
            _halves(inputs=lambda x, g, w: g @ w.T),
            _error_says("cannot be multiplied"),
        ),
        Mistake(
            "other-way-round",
            "The gradient of the weight has its sides exchanged. It has the shape of the weight, (outputs, inputs): "
            "gradient first, transposed.",
            _halves(weights=lambda x, g, w: x.T @ g),
            lambda evidence: evidence.error is not None and evidence.error.kind == "RuntimeError",
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
    forbidden=("torch.autograd.backward", "torch.autograd.grad", "torch.Tensor.backward"),
    forbidden_example=_by_autograd,
    passed="One product in each half, the same gradients as autograd's, and the second half can wait as long as you "
    "like, in any order.",
)
