"""Whose gradients: what stands in ``parameter.grad`` between backward and step is not the mean over ranks.

At stage 1 it is this rank's own gradient, at stage 2 a *stand-in* without memory: the numbers have gone to the ranks
that keep them. Whoever takes it for the mean goes wrong without a word: torch's ``clip_grad_norm_`` would scale each
rank's gradients by a factor of its own, and ``model.zero_grad()`` does not reach what ranks keep already. So a
gradient bears a mark, the number of writes to it that PyTorch counts. A write after backward is seen by that number,
and a gradient that was let go or replaced has no mark.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.parallel.sharded.zero.stand_in import GradientStandIn

__all__ = ["check_unwritten", "is_averaged", "mark_averaged", "mark_complete", "set_stand_ins", "unmark"]

# Attributes of a tensor: they go with it.
_COMPLETE, _AVERAGED = "_complete_at_version", "_averaged_at_version"


def mark_complete(parameter: Tensor) -> None:
    """Backward has just added to this gradient: a hook of autograd."""
    setattr(parameter.grad, _COMPLETE, parameter.grad._version)  # type: ignore[union-attr]


def mark_averaged(gradient: Tensor) -> None:
    """The mean over ranks has been taken of it, and lies in the shards."""
    setattr(gradient, _AVERAGED, gradient._version)


def unmark(parameter: Tensor) -> None:
    """The optimizer has stepped, or let gradients go: without marks, and without a stand-in."""
    for mark in (_COMPLETE, _AVERAGED):
        if hasattr(parameter.grad, mark):
            delattr(parameter.grad, mark)
    if isinstance(parameter.grad, GradientStandIn):
        parameter.grad = None


def is_averaged(gradient: Tensor | None) -> bool:
    """Whether the mean was taken of it. ``RuntimeError`` where it has been written to since."""
    if gradient is None or not hasattr(gradient, _AVERAGED):
        return False
    if gradient._version != getattr(gradient, _AVERAGED):
        raise RuntimeError(
            f"a gradient of shape {tuple(gradient.shape)} was changed after its mean over ranks was taken, and the "
            "change would be lost. Call clip_grad_norm after the last backward of a step; to start again, call "
            "optimizer.zero_grad()."
        )
    return True


def check_unwritten(gradient: Tensor) -> None:
    """``RuntimeError`` where something has written to it since backward."""
    if gradient._version != getattr(gradient, _COMPLETE, gradient._version):
        raise RuntimeError(
            f"a gradient of shape {tuple(gradient.shape)} was changed between backward and step. It is this rank's "
            "own gradient, and not yet the mean. torch's clip_grad_norm_ would scale each rank's gradient by another "
            "factor. To clip, call optimizer.clip_grad_norm(max_norm); to scale, multiply the loss."
        )


def set_stand_ins(parameters: Sequence[Tensor]) -> None:
    """Give each a gradient of its shape, of one number's memory in all: nan, and to add to it is an error."""
    nan = torch.full((), torch.nan, dtype=parameters[0].dtype, device=parameters[0].device)
    for parameter in parameters:
        parameter.grad = GradientStandIn.like(parameter, nan)
        mark_averaged(parameter.grad)
