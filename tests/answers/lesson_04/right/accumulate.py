"""Right answers to 04.accumulate in other styles."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

__all__ = ["ANSWERS"]

Pieces = list[tuple[Tensor, Tensor]]


def flag_in_time(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """The flag that no_sync sets, set before the forward pass; it is up again after the last piece."""
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        ddp.require_backward_grad_sync = index == len(pieces) - 1
        (F.cross_entropy(ddp(x), y) / len(pieces)).backward()
    optimizer.step()


def last_one_apart(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """All but the last piece under one no_sync; clears by the model, and once more at the end."""
    ddp.zero_grad()
    *quiet, (x, y) = pieces
    with ddp.no_sync():
        for images, labels in quiet:
            F.cross_entropy(ddp(images), labels).div(len(pieces)).backward()
    F.cross_entropy(ddp(x), y).div(len(pieces)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def with_an_exit_stack(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """An exit stack that is closed before the last piece; the loss is a sum, divided by all examples."""
    num_examples = sum(len(y) for _, y in pieces)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ddp.no_sync())
        optimizer.zero_grad(set_to_none=True)
        left = len(pieces)
        for x, y in pieces:
            left -= 1
            if not left:
                stack.close()
            loss = F.nll_loss(F.log_softmax(ddp(x), dim=1), y, reduction="sum")
            loss.backward(torch.tensor(1 / num_examples, dtype=loss.dtype, device=loss.device))
    optimizer.step()


def averages_by_hand(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """Everything under no_sync, then one all-reduce of all gradients in a flat tensor."""
    optimizer.zero_grad()
    with ddp.no_sync():
        for x, y in pieces:
            F.cross_entropy(ddp(x), y).backward()
    grads = [p.grad for p in ddp.parameters() if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= len(pieces) * dist.get_world_size()
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))
    optimizer.step()


ANSWERS = (flag_in_time, last_one_apart, with_an_exit_stack, averages_by_hand)
