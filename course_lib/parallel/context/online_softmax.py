"""Attention over some keys, and how such partial results are joined: what makes attention divisible.

Softmax needs the sum over *all* keys, so it seems that a rank must see them all. It need not. Of the keys S1 that it
has seen, keep for each query the largest score m1, the sum l1 of exp(score - m1), and y1, the values added up, each
times its exp(score - m1). With m2, l2 and y2 of other keys S2, of both together it is::

    m = max(m1, m2)     l = exp(m1 - m) l1 + exp(m2 - m) l2     y = exp(m1 - m) y1 + exp(m2 - m) y2

in any order, and no exponent is above zero. In the end y / l is the output, and m + log l = log sum exp(scores) is the
*log-sum-exp*, lse, by which an output can be joined as well: its m is lse, and its l is 1. While keys still come, m and
l are better apart: m is exact, and lse is rounded, by more the larger the scores are. Backward needs lse alone: the
weights are exp(scores - lse), and the scores are computed anew. So nothing of size T x T is kept. Sources: Milakov and
Gimelshein, *Online normalizer calculation for softmax* (2018); Dao et al., *FlashAttention* (2022), and
*FlashAttention-2* (2023), section 3.1, for the sums apart and for the backward.

Shapes: B batch, H query heads, G key/value heads, M = H/G query heads that share one (Ainslie et al., 2023), K numbers
in a head, Q queries and S keys of a tile. All arithmetic has the dtype of the tensors that come in.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RunningAttention", "attend", "attend_backward"]


def attend(q: Tensor, k: Tensor, v: Tensor, *, is_diagonal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """q (B, H, Q, K), k and v (B, G, S, K) -> over these keys y (B, H, Q, K), m (B, H, Q) and l (B, H, Q)."""
    weights = _scores(q, k, is_diagonal)  # (B, G, M Q, S)
    largest = weights.amax(-1, keepdim=True)
    weights.sub_(largest).exp_()
    shape = q.shape[:-1]
    return (weights @ v).view(q.shape), largest.view(shape), weights.sum(-1).view(shape)


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
        self._sums = q.new_zeros(batch, length, heads, head_dim).transpose(1, 2)  # y
        self._largest = q.new_full((batch, heads, length), float("-inf"))  # m: nothing seen
        self._total = q.new_zeros(batch, heads, length)  # l

    def add(self, queries: slice, sums: Tensor, largest: Tensor, total: Tensor | float = 1.0) -> None:
        """Join what some queries have found at further keys: y (B, H, Q, K), m and l (B, H, Q), or an output and its
        lse."""
        before = self._largest[:, :, queries]
        both = torch.maximum(before, largest)
        base = both.masked_fill(both == float("-inf"), 0.0)  # a query to which neither has a key
        old, new = (before - base).exp(), (largest - base).exp()
        self._total[:, :, queries].mul_(old).add_(new * total)
        self._sums[:, :, queries].mul_(old.unsqueeze(-1)).add_(new.unsqueeze(-1) * sums)
        before.copy_(both)

    @property
    def out(self) -> Tensor:
        """The output over the keys seen, (B, H, T, K); 0 for a query that has seen none."""
        return self._sums / self._total.masked_fill(self._total == 0, 1.0).unsqueeze(-1)

    @property
    def lse(self) -> Tensor:
        """The log-sum-exp over the keys seen, (B, H, T); minus infinity for a query that has seen none."""
        return self._largest + self._total.log()
