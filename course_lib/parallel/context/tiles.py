"""Attention over some keys, and how such partial results are joined: what makes attention divisible.

Softmax needs the sum over *all* keys, so it seems that a rank must see them all. It need not. Of the keys S1 that it
has seen, keep for each query the output o1 and lse1 = log sum exp(scores), the *log-sum-exp*. With o2 and lse2 of other
keys S2, of both together it is::

    lse = log(exp(lse1) + exp(lse2))            o = exp(lse1 - lse) o1 + exp(lse2 - lse) o2

exactly, in any order, and no exponent is above zero. Backward needs lse alone: the weights are exp(scores - lse), and
the scores are computed anew. So nothing of size T x T is kept. Sources: Milakov and Gimelshein, *Online normalizer
calculation for softmax* (2018); Dao et al., *FlashAttention* (2022), and *FlashAttention-2* (2023) for the backward.

Shapes: B batch, H query heads, G key/value heads, M = H/G query heads that share one (Ainslie et al., 2023), K numbers
in a head, Q queries and S keys of a tile. All arithmetic has the dtype of the tensors that come in.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RunningAttention", "attend", "attend_backward"]


def attend(q: Tensor, k: Tensor, v: Tensor, *, is_diagonal: bool) -> tuple[Tensor, Tensor]:
    """q (B, H, Q, K), k and v (B, G, S, K) -> the output over these keys (B, H, Q, K) and its lse (B, H, Q)."""
    weights = _scores(q, k, is_diagonal)  # (B, G, M Q, S)
    lse = weights.logsumexp(-1, keepdim=True)
    weights.sub_(lse).exp_()
    return (weights @ v).view(q.shape), lse.view(q.shape[:-1])


def attend_backward(
    q: Tensor, k: Tensor, v: Tensor, lse: Tensor, grad_out: Tensor, dots: Tensor, *, is_diagonal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """This tile's part of the gradients of q, k and v; the parts of all tiles are added up.

    ``lse`` (B, H, Q) is that over all keys. ``dots`` (B, H, Q) is sum(grad_out * out) over a head's numbers: how much
    a query's weights together would grow, which softmax takes off each of them, since they add up to 1.
    """
    grouped_q, grouped_grad = _grouped(q, k), _grouped(grad_out, k)  # (B, G, M Q, K)
    weights = _scores(q, k, is_diagonal).sub_(_grouped(lse.unsqueeze(-1), k)).exp_()  # (B, G, M Q, S)
    grad_v = weights.mT @ grouped_grad
    grad_scores = (grouped_grad @ v.mT).sub_(_grouped(dots.unsqueeze(-1), k)).mul_(weights)
    grad_scores *= q.size(-1) ** -0.5
    return (grad_scores @ k).view(q.shape), grad_scores.mT @ grouped_q, grad_v


def _scores(q: Tensor, k: Tensor, is_diagonal: bool) -> Tensor:
    """(B, G, M Q, S): how much each query likes each key; minus infinity for a key that comes after it."""
    scores = _grouped(q, k) @ k.mT
    scores *= q.size(-1) ** -0.5
    if is_diagonal:
        num = k.size(-2)
        later = torch.ones(num, num, dtype=torch.bool, device=q.device).triu(1)
        scores.unflatten(2, (-1, num)).masked_fill_(later, float("-inf"))
    return scores


def _grouped(x: Tensor, k: Tensor) -> Tensor:
    """(B, H, Q, .) -> (B, G, M Q, .): the queries of all heads that share a key head stand below each other."""
    return x.unflatten(1, (k.size(1), -1)).flatten(2, 3)


class RunningAttention:
    """Attention to the keys seen so far: ``out`` (B, H, T, K) and ``lse`` (B, H, T), for queries that are all here."""

    def __init__(self, q: Tensor) -> None:
        batch, heads, length, head_dim = q.shape
        # Laid out by position, so that the heads of a position are one row for the matrix that comes next.
        self.out = q.new_zeros(batch, length, heads, head_dim).transpose(1, 2)
        self.lse = q.new_full((batch, heads, length), float("-inf"))  # nothing seen: a sum of 0

    def add(self, queries: slice, out: Tensor, lse: Tensor) -> None:
        """Join what some queries, (B, H, Q, K) and (B, H, Q), have found at further keys."""
        before = self.lse[:, :, queries]
        both = torch.logaddexp(before, lse)
        here = self.out[:, :, queries]
        here *= (before - both).exp().unsqueeze(-1)
        here += (lse - both).exp().unsqueeze(-1) * out
        before.copy_(both)
