"""10.join: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_10.join.wrong_answers import (
    _NONE,
    Found,
    _shares,
    adds_lse,
    adds_outs,
    averages,
    forgets_the_shift,
    larger_lse,
    nan_of_nothing,
    no_log,
    swaps_shares,
    takes_the_winner,
    weighs_by_lse,
)


def overflows(first: Found, second: Found) -> Found:
    (out, lse), (other, other_lse) = first, second
    mine, theirs = lse.exp(), other_lse.exp()
    total = mine + theirs
    joined = (mine.unsqueeze(-1) * out + theirs.unsqueeze(-1) * other) / total.unsqueeze(-1)
    return joined, total.log()


def shifts_by_the_first(first: Found, second: Found) -> Found:
    (out, lse), (other, other_lse) = first, second
    theirs = (other_lse - lse).exp()
    total = 1 + theirs
    return (out + theirs.unsqueeze(-1) * other) / total.unsqueeze(-1), lse + total.log()


def one_top_for_all(first: Found, second: Found) -> Found:
    (out, lse), (other, other_lse) = first, second
    top = torch.maximum(lse, other_lse).max()
    mine, theirs = (lse - top).exp(), (other_lse - top).exp()
    total = mine + theirs
    joined = (mine.unsqueeze(-1) * out + theirs.unsqueeze(-1) * other) / total.unsqueeze(-1)
    return joined, top + total.log()


def finite_nothing(first: Found, second: Found) -> Found:
    (out, lse), (other, other_lse) = first, second
    return nan_of_nothing((out, lse.clamp(min=-1e9)), (other, other_lse.clamp(min=-1e9)))


def no_last_dim(first: Found, second: Found) -> Found:
    both = torch.logaddexp(first[1], second[1])
    mine, theirs = ((lse - both).exp() for _, lse in (first, second))
    return mine * first[0] + theirs * second[0], both


def gives_out_alone(first: Found, second: Found) -> Tensor:
    mine, theirs, _ = _shares(first, second)
    return mine * first[0] + theirs * second[0]


def in_float32(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return (mine.float() * first[0] + theirs.float() * second[0]), both.float().double()


def in_place(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    first[0].mul_(mine).add_(theirs * second[0])
    return first[0], both


def by_the_library(first: Found, second: Found) -> Found:
    """What the exercise is about, done by the course."""
    from course_lib.parallel.context import RunningAttention

    running = RunningAttention(first[0])
    for out, lse in (first, second):
        running.add(slice(None), out, lse)
    nothing = running.lse == _NONE
    return running.out.masked_fill(nothing.unsqueeze(-1), 0.0), running.lse


def _right(first: Found, second: Found) -> Found:
    mine, theirs, both = _shares(first, second)
    return mine * first[0] + theirs * second[0], both


_KEPT: dict[object, Found] = {}


_BUFFERS: dict[object, Tensor] = {}


def kept_by_shape(first: Found, second: Found) -> Found:
    return _KEPT.setdefault(first[0].shape, _right(first, second))


def always_in_float64(first: Found, second: Found) -> Found:
    out, lse = _right(first, second)
    return out.double(), lse.double()


def views(first: Found, second: Found) -> Found:
    batch, heads, queries, head_dim = first[0].shape
    flat = [
        (out.view(batch * heads, queries, head_dim), lse.view(batch * heads, queries)) for out, lse in (first, second)
    ]
    out, lse = _right(*flat)
    return out.view(first[0].shape), lse.view(first[1].shape)


def detached(first: Found, second: Found) -> Found:
    with torch.no_grad():
        return _right(first, second)


def in_one_buffer(first: Found, second: Found) -> Found:
    out, lse = _right(first, second)
    if out.requires_grad:
        return out, lse
    kept = [_BUFFERS.setdefault((one.shape, one.dtype), torch.empty_like(one)).copy_(one) for one in (out, lse)]
    return kept[0], kept[1]


EXERCISE = "10.join"
EXAMPLES: dict[str, Any] = {
    "no-last-dim": no_last_dim,
    "gives-out-alone": gives_out_alone,
    "averages": averages,
    "adds-outs": adds_outs,
    "weighs-by-lse": weighs_by_lse,
    "swaps-shares": swaps_shares,
    "takes-the-winner": takes_the_winner,
    "adds-lse": adds_lse,
    "larger-lse": larger_lse,
    "forgets-the-shift": forgets_the_shift,
    "no-log": no_log,
    "overflows": overflows,
    "shifts-by-one-side": shifts_by_the_first,
    "one-top-for-all": one_top_for_all,
    "nan-of-nothing": nan_of_nothing,
    "finite-nothing": finite_nothing,
    "rounded": in_float32,
    "in-place": in_place,
    "gives-an-earlier-result": kept_by_shape,
    "gives-another-dtype": always_in_float64,
    "takes-rows-for-granted": views,
    "leaves-the-graph": detached,
    "one-buffer": in_one_buffer,
}


FORBIDDEN = by_the_library
