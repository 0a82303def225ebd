"""07.halves: PyTorch may be asked for one gradient at a time, which is what a split backward is made of there."""

from __future__ import annotations

import torch
from answer_table import Row


def right(x, gradient, weight):
    return gradient @ weight, lambda: weight.grad.add_(gradient.T @ x)


def one_gradient_at_a_time(x, gradient, weight):
    x_, weight_ = x.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()
    y = x_ @ weight_.T

    def later():
        weight.grad += torch.autograd.grad(y, weight_, gradient)[0]

    return torch.autograd.grad(y, x_, gradient, retain_graph=True)[0], later


def both_gradients_at_once(x, gradient, weight):
    x_, weight_ = x.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()
    of_x, of_weight = torch.autograd.grad(x_ @ weight_.T, [x_, weight_], gradient)
    return of_x, lambda: weight.grad.add_(of_weight)


def both_gradients_twice(x, gradient, weight):
    x_, weight_ = x.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()
    y = x_ @ weight_.T

    def later():
        weight.grad += torch.autograd.grad(y, weight_, gradient)[0]

    return torch.autograd.grad(y, [x_, weight_], gradient, retain_graph=True)[0], later


def by_the_whole_backward(x, gradient, weight):
    x_, weight_ = x.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()
    (x_ @ weight_.T).backward(gradient)
    return x_.grad, lambda: weight.grad.add_(weight_.grad)


ROWS = [
    Row(answer=right, verdict="passed", why="the definition"),
    Row(
        answer=one_gradient_at_a_time,
        verdict="passed",
        why="each half asks autograd for its own gradient; nothing on the page forbids it",
    ),
    Row(
        answer=both_gradients_at_once,
        verdict="not yet",
        mistake="computed-too-early",
        why="nothing is put off",
    ),
    Row(
        answer=both_gradients_twice,
        verdict="not yet",
        why="the first half computes what belongs to the second",
        words=("the first half multiplies",),
    ),
    Row(answer=by_the_whole_backward, verdict="forbidden", why="a whole backward in one go"),
]
