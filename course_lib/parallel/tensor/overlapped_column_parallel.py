"""Enter a split region and multiply by what stands at its door, with the backward pass overlapped.

The gradient of the input must be summed over ranks; the gradients of the weights need no other rank. So the backward
pass computes the input's gradient first, starts the collective, and computes the weights' gradients while it runs.
Source: Megatron-LM, ``LinearWithGradAccumulationAndAsyncCommunication``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.parallel.collectives.autocast import as_autocast
from course_lib.parallel.collectives.dim_collectives import (
    start_all_gather,
    start_all_reduce,
    start_reduce_scatter,
)
from course_lib.parallel.tensor.region import SEQUENCE_DIM, Region

__all__ = ["enter_and_multiply"]


def enter_and_multiply(
    region: Region, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    """x (..., T, D), or (..., T/n, D) with sequence parallelism; weights (out, D) -> one (..., T, out) for each weight.

    One collective serves all the weights. Forward: nothing is sent; with sequence parallelism an all-gather. Backward:
    an all-reduce of the input's gradient; with sequence parallelism a reduce-scatter, and before it an all-gather of
    the input where ``region.regather``. Under autocast all of it has autocast's dtype, the messages too.
    """
    return _EnterAndMultiply.apply(
        region,
        len(weights),
        *(None if factor is None else as_autocast(factor) for factor in (x, *weights, *biases)),
    )


class _EnterAndMultiply(Function):
    @staticmethod
    def forward(ctx: Any, region: Region, count: int, x: Tensor, *parameters: Any) -> Any:
        weights, biases = parameters[:count], parameters[count:]
        ctx.region, ctx.count, ctx.members = region, count, region.members
        ctx.is_gathered = region.sequence_parallel and ctx.members.count > 1
        full = start_all_gather(ctx.members, x, SEQUENCE_DIM)() if ctx.is_gathered else x
        ctx.save_for_backward(x if region.regather else full, *weights)
        return tuple(F.linear(full, w, b) for w, b in zip(weights, biases, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, *weights = ctx.saved_tensors
        needs_x, *needs = ctx.needs_input_grad[2:]
        needs_weight, needs_bias = needs[: ctx.count], needs[ctx.count :]
        rows = [grad.reshape(-1, grad.size(-1)) for grad in grads]  # (B T, out)

        gathers_anew = ctx.is_gathered and ctx.region.regather and any(needs_weight)
        finish_x = start_all_gather(ctx.members, x, SEQUENCE_DIM) if gathers_anew else lambda: x
        finish_grad_x = _start_input_grad(ctx, rows, weights, grads[0].shape) if needs_x else lambda: None

        x_rows = finish_x().reshape(-1, weights[0].size(1))  # (B T, D)
        grad_weights = [g.T @ x_rows.conj() if needed else None for g, needed in zip(rows, needs_weight, strict=True)]
        grad_biases = [g.sum(0) if needed else None for g, needed in zip(rows, needs_bias, strict=True)]
        return None, None, finish_grad_x(), *grad_weights, *grad_biases


def _start_input_grad(ctx: Any, rows: list[Tensor], weights: list[Tensor], shape: torch.Size) -> Any:
    """Each rank's gradient of the whole input, while it is being summed."""
    grad_x = rows[0] @ weights[0].conj()
    for grad, weight in zip(rows[1:], weights[1:], strict=True):
        grad_x.addmm_(grad, weight.conj())
    grad_x = grad_x.view(*shape[:-1], weights[0].size(1))  # (..., T, D)
    if ctx.members.count == 1:
        return lambda: grad_x
    if ctx.region.sequence_parallel:
        return start_reduce_scatter(ctx.members, grad_x, SEQUENCE_DIM)
    return start_all_reduce(ctx.members, grad_x)
