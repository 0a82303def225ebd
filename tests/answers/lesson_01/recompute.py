"""01.recompute: the backward pass of a block that kept nothing but its input."""

from __future__ import annotations

import torch
from answer_table import Row


def backward_from_y(block, x, grad_y, rng_state):
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(x)
    torch.autograd.backward(y, grad_y)
    return x.grad


def grad_of_each(block, x, grad_y, rng_state, **options):
    x = x.detach().requires_grad_()
    learning = [p for p in block.parameters() if p.requires_grad]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(x)
    grad_x, *grads = torch.autograd.grad(y, [x, *learning], grad_y, **options)
    for p, g in zip(learning, grads, strict=True):
        if g is not None:
            p.grad = g if p.grad is None else p.grad + g
    return grad_x


def grad_of_each_that_is_used(block, x, grad_y, rng_state):
    return grad_of_each(block, x, grad_y, rng_state, allow_unused=True)


def in_one_buffer(block, x, grad_y, rng_state, buffers={}):  # noqa: B006
    grad_x = backward_from_y(block, x, grad_y, rng_state)
    return buffers.setdefault((grad_x.shape, grad_x.dtype), torch.empty_like(grad_x)).copy_(grad_x)


def keeps_its_input(block, x, grad_y, rng_state, seen=[]):  # noqa: B006
    seen.append(x)
    return backward_from_y(block, x, grad_y, rng_state)


ROWS = [
    Row(answer=backward_from_y, verdict="passed", why="the definition"),
    Row(answer=grad_of_each_that_is_used, verdict="passed", why="the same by another door"),
    Row(
        answer=grad_of_each,
        verdict="not yet",
        mistake="all-layers-taken-for-used",
        why="a block may have a layer that a pass does not use",
    ),
    Row(
        answer=in_one_buffer,
        verdict="not yet",
        words=("the gradient that an earlier call gave is another one now",),
        why="two blocks of one shape follow each other in every model",
    ),
    Row(
        answer=keeps_its_input,
        verdict="not yet",
        words=("still holds a tensor that it was given",),
        why="the inputs of all steps stay in memory",
    ),
]
