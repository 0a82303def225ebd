"""Right answers to 11.loss in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.models import Transformer, next_token_loss

__all__ = ["ANSWERS", "SAME"]


def _body(model: Transformer, tokens: Tensor) -> Tensor:
    x = model.stem(tokens)
    for block in model.blocks:
        x = block(x)
    return x


def running_total(model: Transformer, tokens: Tensor, length: int = 32) -> Tensor:
    x, total = _body(model, tokens), torch.zeros((), dtype=model.head.w_vocab.weight.dtype)
    for first in range(0, tokens.size(1), length):
        part = slice(first, first + length)
        scores_to_sum = _of_piece(model)
        total = total + checkpoint(scores_to_sum, x[:, part], tokens[:, part], use_reentrant=False)
    return total / (tokens.size(0) * tokens.size(1))


def _of_piece(model: Transformer) -> Any:
    return lambda x, targets: next_token_loss(model.head(x), targets, reduction="sum")


def weighted_means(model: Transformer, tokens: Tensor, length: int = 32) -> Any:
    """Each piece's mean by its share of the positions; the older form of ``checkpoint``."""
    total: Any = 0.0
    for x, targets in zip(_body(model, tokens).split(length, 1), tokens.split(length, 1), strict=True):
        mean = checkpoint(lambda x, y: next_token_loss(model.head(x), y), x, targets, use_reentrant=True)
        total = total + mean * (targets.size(1) / tokens.size(1))
    return total


def by_hand(model: Transformer, tokens: Tensor, length: int = 32) -> Tensor:
    """The norm for all positions at once, and ``cross_entropy`` of a matrix product."""
    x = model.head.norm(_body(model, tokens))

    def piece(x: Tensor, targets: Tensor) -> Tensor:
        scores = F.linear(x, model.head.w_vocab.weight)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none").sum()

    pairs = zip(x.split(length, 1), tokens.split(length, 1), strict=True)
    return sum((checkpoint(piece, *pair, use_reentrant=False) for pair in pairs), x.new_zeros(())) / tokens.numel()


class _Fused(torch.autograd.Function):
    """The gradients are made with the loss, piece by piece, and kept in place of any scores."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, length: int) -> Tensor:
        total, of_x, of_weight = x.new_zeros(()), torch.zeros_like(x), torch.zeros_like(weight)
        for first in range(0, x.size(1), length):
            part = slice(first, first + length)
            with torch.enable_grad():
                own, matrix = x[:, part].detach().requires_grad_(), weight.detach().requires_grad_()
                loss = next_token_loss(F.linear(own, matrix), targets[:, part], reduction="sum") / targets.numel()
                of_x[:, part], more = torch.autograd.grad(loss, (own, matrix))
            of_weight += more
            total += loss.detach()
        ctx.save_for_backward(of_x, of_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        of_x, of_weight = ctx.saved_tensors
        return grads[0] * of_x, grads[0] * of_weight, None, None


def fused(model: Transformer, tokens: Tensor, length: int = 32) -> Any:
    return _Fused.apply(model.head.norm(_body(model, tokens)), model.head.w_vocab.weight, tokens, length)


def in_a_module(model: Transformer, tokens: Tensor, length: int = 32) -> Tensor:
    """Pieces by ``chunk`` of a flat batch, one sequence after the other."""

    class Piece(nn.Module):
        def forward(self, x: Tensor, targets: Tensor) -> Tensor:
            return next_token_loss(model.head(x), targets, reduction="sum")

    piece, x, sums = Piece(), _body(model, tokens), []
    for row in range(len(tokens)):
        pairs = zip(x[row : row + 1].split(length, 1), tokens[row : row + 1].split(length, 1), strict=True)
        sums += [checkpoint(piece, *pair, use_reentrant=False, preserve_rng_state=False) for pair in pairs]
    return torch.stack(sums).sum().div(tokens.numel())


ANSWERS = (running_total, weighted_means, by_hand, fused, in_a_module)
SAME: dict[str, str] = {}
