"""Usual wrong answers to 10.join. Each takes and gives pairs of (B, H, Q, K) and (B, H, Q)."""

from __future__ import annotations

import torch
from torch import Tensor

Found = tuple[Tensor, Tensor]
_NONE = float("-inf")


def _shares(first: Found, second: Found) -> tuple[Tensor, Tensor, Tensor]:
    """The two shares (B, H, Q, 1), and the lse of both: what is right about most of these answers."""
    both = torch.logaddexp(first[1], second[1])
    base = both.masked_fill(both == _NONE, 0.0)
    mine, theirs = ((lse - base).exp().unsqueeze(-1) for _, lse in (first, second))
    return mine, theirs, both


def averages(first: Found, second: Found) -> Found:
    return (first[0] + second[0]) / 2, _shares(first, second)[2]


def adds_outs(first: Found, second: Found) -> Found:
    return first[0] + second[0], _shares(first, second)[2]


def weighs_by_lse(first: Found, second: Found) -> Found:
    (out, lse), (other, other_lse) = first, second
    share = (lse / (lse + other_lse)).unsqueeze(-1)
    return share * out + (1 - share) * other, torch.logaddexp(lse, other_lse)


def softens_twice(first: Found, second: Found) -> Found:
    """The shares of the larger and the smaller, never divided by their sum."""
    top = torch.maximum(first[1], second[1])
    base = top.masked_fill(top == _NONE, 0.0)
    mine, theirs = ((lse - base).exp() for _, lse in (first, second))
    out = mine.unsqueeze(-1) * first[0] + theirs.unsqueeze(-1) * second[0]
    return out, base + (mine + theirs).log()


def swaps_shares(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return theirs * first[0] + mine * second[0], both


def takes_the_winner(first: Found, second: Found) -> Found:
    wins = first[1] >= second[1]
    return torch.where(wins.unsqueeze(-1), first[0], second[0]), torch.maximum(first[1], second[1])


def adds_lse(first: Found, second: Found) -> Found:
    mine, theirs, _ = _shares(first, second)
    return mine * first[0] + theirs * second[0], first[1] + second[1]


def larger_lse(first: Found, second: Found) -> Found:
    mine, theirs, _ = _shares(first, second)
    return mine * first[0] + theirs * second[0], torch.maximum(first[1], second[1])


def forgets_the_shift(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    top = torch.maximum(first[1], second[1])
    return mine * first[0] + theirs * second[0], (both - top).nan_to_num(nan=_NONE)


def no_log(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return mine * first[0] + theirs * second[0], both.exp()


def nan_of_nothing(first: Found, second: Found) -> Found:
    both = torch.logaddexp(first[1], second[1])
    mine, theirs = ((lse - both).exp().unsqueeze(-1) for _, lse in (first, second))
    return mine * first[0] + theirs * second[0], both


def skips_the_empty(first: Found, second: Found) -> Found:
    """A side of which any query saw no key is left out for all of them."""
    if (second[1] == _NONE).any():
        return first
    return second if (first[1] == _NONE).any() else nan_of_nothing(first, second)


def keeps_the_dim(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return mine * first[0] + theirs * second[0], both.unsqueeze(-1)


def gives_lse_first(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return both, mine * first[0] + theirs * second[0]
