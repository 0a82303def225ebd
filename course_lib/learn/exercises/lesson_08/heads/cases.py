"""What split attention is tried on: three sizes, one of them with keys that do not learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import all_reduce_of, leaf, made, reported, seen_report, weighted_sum

__all__ = ["CASES", "LIBRARY", "WEIGHTS", "trial"]

LIBRARY = "course_lib.parallel.tensor.attention.HeadParallelAttention"
_CUT_DIM = {"w_q": 0, "w_k": 0, "w_v": 0, "w_out": 1}  # where a rank's heads are
WEIGHTS = tuple(_CUT_DIM)
_HEAD_DIM = 6  # divides by two and by three: heads that are cut too thin are then wrong, and no error


@dataclass(frozen=True)
class _Sizes:
    label: str
    batch_size: int
    length: int
    heads_a_rank: int
    frozen: frozenset[str] = field(default_factory=frozenset)

    def width(self, world_size: int) -> int:
        return self.heads_a_rank * world_size * _HEAD_DIM


_SIZES = (
    _Sizes("2 sequences of 5 tokens, 2 heads a rank", 2, 5, 2),
    _Sizes("1 sequence of 4 tokens, 1 head a rank", 1, 4, 1),
    _Sizes("3 sequences of 3 tokens, 2 heads a rank, keys that are frozen", 3, 3, 2, frozenset({"w_k"})),
)


def trial(answer: Callable[..., Any], me: Rank, sizes: _Sizes) -> dict[str, Any]:
    """The report of an answer on this rank."""
    seen = seen_again(partial(_step, answer, me, sizes), me.world_size)
    return seen_report(seen, me.world_size, _num_summed(sizes, me.world_size))


def _step(answer: Callable[..., Any], me: Rank, sizes: _Sizes, number: int) -> StepSeen:
    parts = _parts(me.rank, me.world_size, _whole(sizes, me.world_size, number))
    leaves = {name: leaf(part, me, is_frozen=name in sizes.frozen) for name, part in parts.items()}
    handed = {**leaves, "x": leaves["x"] * 1.0}  # x comes from the layers before, weights are leaves
    run = partial(answer, me, *handed.values(), sizes.heads_a_rank * me.world_size)
    return take_step(me, run, leaves, handed, weighted_sum, (LIBRARY, *READY_MADE))


def _right(sizes: _Sizes) -> Callable[[int, int], dict[str, Any]]:
    """The report of right attention, from all heads in one process."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        whole = _whole(sizes, world_size, 1)
        for name, tensor in whole.items():
            tensor.requires_grad_(name not in sizes.frozen)
        output = _attention(sizes.heads_a_rank * world_size, **whole)
        weighted_sum(output).backward()
        learning = {name: tensor.grad for name, tensor in whole.items() if tensor.grad is not None}
        parts = _parts(rank, world_size, learning)
        sent = all_reduce_of(_num_summed(sizes, world_size))
        gradients = {name: parts.get(name, NO_GRADIENT) for name in whole}
        return reported(output.detach(), gradients, sent, sent)

    return expected


def _attention(num_heads: int, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor) -> Tensor:
    """Causal attention, written out: (B, T, D) -> (B, T, D)."""
    q, k, v = ((x @ w.T).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(later, -torch.inf)  # (B, H, T, T)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ w_out.T


def _whole(sizes: _Sizes, world_size: int, number: int) -> dict[str, Tensor]:
    width = sizes.width(world_size)
    weights = {name: made(f"{name} {number}", width, width) / width**0.5 for name in WEIGHTS}
    return {"x": made(f"x {number}", sizes.batch_size, sizes.length, width), **weights}


def _parts(rank: int, n: int, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.chunk(n, _CUT_DIM[name])[rank] if name in _CUT_DIM else one for name, one in of.items()}


def _num_summed(sizes: _Sizes, world_size: int) -> int:
    return sizes.batch_size * sizes.length * sizes.width(world_size)


CASES = tuple(Case(sizes.label, (sizes,), _right(sizes)) for sizes in _SIZES)
