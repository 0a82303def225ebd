"""Right answers to 10.join in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ANSWERS", "SAME"]

Found = tuple[Tensor, Tensor]


def by_softmax(first: Found, second: Found) -> Found:
    """The two lse are scores of two keys, whose values are the outputs."""
    lse = torch.stack([first[1], second[1]])  # (2, B, H, T)
    shares = lse.softmax(0).nan_to_num(nan=0.0)
    out = (shares.unsqueeze(-1) * torch.stack([first[0], second[0]])).sum(0)
    return out, lse.logsumexp(0)


def by_the_larger(first: Found, second: Found) -> Found:
    """By hand: what is taken off, and put back."""
    (out, lse), (other, other_lse) = first, second
    top = torch.maximum(lse, other_lse)
    top = torch.where(top.isinf(), torch.zeros_like(top), top)
    mine, theirs = torch.exp(lse - top)[..., None], torch.exp(other_lse - top)[..., None]
    total = mine + theirs
    joined = (mine * out + theirs * other) / torch.where(total == 0, 1.0, total)
    return joined, top + total.squeeze(-1).log()


def by_sigmoid(first: Found, second: Found) -> list[Tensor]:
    """The share of the one is the sigmoid of the difference, that of the other is what is left."""
    (out, lse), (other, other_lse) = first, second
    share = torch.sigmoid(lse - other_lse).nan_to_num(nan=0.5)[:, :, :, None]
    return [share * out + (1 - share) * other, torch.logaddexp(other_lse, lse)]


def by_lerp(first: Found, second: Found) -> Found:
    """From the larger side towards the smaller; nothing is below what floats can hold."""
    (out, lse), (other, other_lse) = first, second
    floor = torch.finfo(lse.dtype).min
    both = torch.logaddexp(lse, other_lse)
    share = (other_lse.clamp(min=floor) - both.clamp(min=floor)).exp()
    share = torch.where(other_lse.isinf(), 0.0, share)
    return torch.lerp(out, other, share.unsqueeze(-1).expand_as(out)), both


def query_by_query(first: Found, second: Found) -> Found:
    """Slow and plain: one number after the other."""
    (out, lse), (other, other_lse) = first, second
    joined, both = torch.zeros_like(out), torch.full_like(lse, -torch.inf)
    for place in [tuple(p) for p in torch.ones_like(lse).nonzero().tolist()]:
        sums = [lse[place], other_lse[place]]
        top = max(one.item() for one in sums)
        if top == -torch.inf:
            continue
        both[place] = whole = top + torch.stack(sums).sub(top).exp().sum().log()
        for one, part in zip(sums, (out, other), strict=True):
            joined[place] += (one - whole).exp() * part[place]
    return joined, both


ANSWERS = (by_softmax, by_the_larger, by_sigmoid, by_lerp, query_by_query)
SAME: dict[str, str] = {
    "2: `torch.logaddexp(lse1, lse2)` -> `torch.logaddexp(lse2, lse1)`": "A sum is the same in either order.",
    "3: `0.0` -> `1.0`": "Any finite number does: what is taken off is minus infinity less it, and exp of that is 0.",
}
