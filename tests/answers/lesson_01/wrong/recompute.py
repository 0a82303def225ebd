"""01.recompute: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.learn.exercises.lesson_01.recompute import _again, _with_ones


def _keeps_its_gradient(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> None:
    _again()(block, x, grad_y, rng_state)


def _from_a_sum_unrecorded(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(x)
    y.sum().backward()
    return x.grad


def _from_y_alone(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        block(x).backward()
    return x.grad


def _clears_before(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    block.zero_grad()
    return _again()(block, x, grad_y, rng_state)


def _leaves_recording_on(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    torch.set_grad_enabled(True)
    return _again()(block, x, grad_y, rng_state)


def _asks_for_each(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    x = x.detach().requires_grad_()
    learning = [p for p in block.parameters() if p.requires_grad]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        grad_x, *grads = torch.autograd.grad(block(x), [x, *learning], grad_y)
    for parameter, grad in zip(learning, grads, strict=True):
        parameter.grad = grad if parameter.grad is None else parameter.grad + grad
    return grad_x


def _by_checkpoint(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        checkpoint(block, x, use_reentrant=False).backward(grad_y)
    return x.grad


EXERCISE = "01.recompute"
EXAMPLES: dict[str, Any] = {
    "not-recorded": _again(record=False),
    "recorded-too-little": _from_a_sum_unrecorded,
    "not-cut-off": _again(cut=False),
    "nothing-for-x": _keeps_its_gradient,
    "grad-y-unused": _with_ones,
    "no-grad-y": _from_y_alone,
    "all-layers-taken-for-used": _asks_for_each,
    "gradients-replaced": _clears_before,
    "other-dropout": _again(dropout="drawn anew"),
    "recording-left-on": _leaves_recording_on,
}


FORBIDDEN = _by_checkpoint
