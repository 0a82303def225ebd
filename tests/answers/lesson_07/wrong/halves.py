"""07.halves: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_07.halves import _halves


def _change_weight(weight: Tensor, made: Tensor) -> None:
    weight += made


def _forget(weight: Tensor, made: Tensor) -> None:
    """Made, and kept by nobody."""


def _called_already(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    back, later = _halves()(x, gradient, weight)
    return back, later()


def _by_autograd(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    weight.requires_grad_()
    entering = x.clone().requires_grad_()
    torch.autograd.backward(torch.nn.functional.linear(entering, weight), gradient)
    return entering.grad, lambda: None


EXERCISE = "07.halves"
EXAMPLES: dict[str, Any] = {
    "no-function": _called_already,
    "computed-too-early": _halves(early=True),
    "changes-the-weight": _halves(put=_change_weight),
    "kept-by-nobody": _halves(put=_forget),
    "product-does-not-fit": _halves(inputs=lambda x, g, w: g @ w.T),
}


FORBIDDEN = _by_autograd
