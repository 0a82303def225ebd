"""10.ring: sequences on which a ring is tried, and what one process gives for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_lib.layouts.sequence_cut import SequenceCut

__all__ = [
    "AWKWARD",
    "BACKWARD",
    "CAUSAL",
    "GROUPED",
    "GROUPS",
    "HIDDEN",
    "LARGE",
    "MESSAGES",
    "NAMES",
    "ROUNDS",
    "SITUATIONS",
    "UNEVEN",
    "VALUES",
    "ZIGZAG",
    "RingSituation",
    "WholeRun",
    "oracle",
    "own_part",
    "whole_of",
]

NAMES = ("q", "k", "v")
ROUNDS = 3  # calls of one object, each with other numbers: the first is plain, the next recorded, the last weighed


@dataclass(frozen=True)
class RingSituation:
    """A sequence among the ranks of a group; ``tokens``: how many of them a rank has, where all have as many."""

    order: str = "contiguous"  # or zigzag, striped, uneven
    tokens: int = 8
    heads: tuple[int, int] = (2, 2)  # of queries, and of keys and values
    batch: int = 2
    head_dim: int = 4
    is_causal: bool = False
    dtype: torch.dtype = torch.float64
    scale: float = 1.0  # of the queries
    is_far: bool = False  # all scores of a query are large, of every other one below zero
    needs: tuple[str, ...] = NAMES  # which of q, k and v get a gradient
    group: str = "all"  # or pair, one
    is_stacked: bool = False  # a second call takes what the first one gave as queries
    is_strided: bool = False  # q, k and v as a transformer has them, (B, T, H, K), with two dims swapped
    num_objects: int = 1  # called in turn, each with its own positions
    is_counted: bool = True  # products, messages and memory

    @property
    def within(self) -> float:
        """How far a right number may be off, relative to the largest of its tensor: a few roundings of the dtype."""
        return {torch.bfloat16: 2.0**-7, torch.float32: 1e-5}.get(self.dtype, 1e-10)

    def members(self, world_size: int) -> tuple[int, ...]:
        """The ranks that share the sequence."""
        if self.group == "all" or world_size == 1:
            return tuple(range(world_size))
        if self.group == "one":
            return (world_size - 1,)
        return (1, world_size - 1) if world_size > 2 else (0, 1)

    def positions(self, count: int, number: int = 0) -> list[list[int]]:
        """Of each of ``count`` ranks that share the sequence, for the object of this number."""
        total = self.tokens * count
        if self.order == "uneven":
            sizes = [(3, 0, 6, 1)[(rank + number) % 4] for rank in range(count)]
            starts = [sum(sizes[:rank]) for rank in range(count)]
            return [list(range(at, at + size)) for at, size in zip(starts, sizes, strict=True)]
        if self.order == "striped":
            return [list(range(rank, total, count)) for rank in range(count)]
        cut = SequenceCut(total, count, "contiguous" if number else self.order)
        return [cut.positions(rank) for rank in range(count)]


LARGE = "scores of 1000"
ZIGZAG = ("causal, in zigzag order", "causal and large scores, in zigzag order")
GROUPED = ("two heads of queries for each head of keys", "grouped heads, as a transformer lays them out")
GROUPS = ("two ranks of them, who share a sequence", "one rank of them, alone with a sequence")
UNEVEN = ("uneven parts", "uneven parts, causal")
SITUATIONS = {
    "every query sees every key": RingSituation(needs=()),
    "one head, one sequence": RingSituation(heads=(1, 1), batch=1, needs=()),
    LARGE: RingSituation(scale=500.0, needs=(), is_far=True),
    "gradients": RingSituation(),
    "one call on top of another": RingSituation(is_stacked=True, is_counted=False),
    "causal, a stretch each": RingSituation(is_causal=True),
    ZIGZAG[0]: RingSituation("zigzag", is_causal=True),
    ZIGZAG[1]: RingSituation("zigzag", is_causal=True, scale=300.0),
    GROUPED[0]: RingSituation(heads=(4, 2), dtype=torch.float32),
    GROUPED[1]: RingSituation("zigzag", heads=(4, 2), is_causal=True, is_strided=True),
    "a longer sequence": RingSituation(tokens=16, batch=1),
    UNEVEN[0]: RingSituation("uneven", is_counted=False),
    UNEVEN[1]: RingSituation("uneven", is_causal=True, is_counted=False),
    "every fourth position": RingSituation("striped", is_causal=True, is_counted=False),
    "bfloat16": RingSituation(dtype=torch.bfloat16, scale=4.0, is_counted=False),
    "keys that learn nothing": RingSituation("zigzag", is_causal=True, needs=("q", "v"), is_counted=False),
    "two rings by turns": RingSituation("zigzag", is_causal=True, num_objects=2, is_counted=False),
    GROUPS[0]: RingSituation("zigzag", is_causal=True, group="pair", is_counted=False),
    GROUPS[1]: RingSituation("zigzag", is_causal=True, group="one", is_counted=False),
}
_LABELS = tuple(SITUATIONS)
VALUES, BACKWARD, CAUSAL, MESSAGES, HIDDEN, AWKWARD = (
    _LABELS[:3],
    _LABELS[3:5],
    _LABELS[5:8],
    _LABELS[8:10],
    _LABELS[10:11],
    _LABELS[11:],
)


# -- one process ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeRun:
    """The output and the gradients of q, k and v of the whole sequence, (B, H, T, K) and (B, G, T, K) twice."""

    out: Tensor
    gradients: dict[str, Tensor]


def whole_of(label: str, count: int, number: int, turn: int) -> list[Tensor]:
    """q, k, v and the gradient of the output, whole; other numbers for each object and each turn."""
    one = SITUATIONS[label]
    total = sum(map(len, one.positions(count, number)))
    draw = torch.Generator().manual_seed(100 * turn + 10 * number + count)
    heads = one.heads[0], one.heads[1], one.heads[1], one.heads[0]
    shapes = [(one.batch, each, total, one.head_dim) for each in heads]
    made = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]
    if one.is_far:
        made[:2] = (1 + x / 10 for x in made[:2])
        made[0][..., 1::2, :] *= -1
    made[0] *= one.scale
    return [tensor.to(one.dtype) for tensor in made]


def own_part(x: Tensor, own: Sequence[int]) -> Tensor:
    """(B, H, T, K) -> these positions, (B, H, T_r, K)."""
    return x[:, :, list(own)].contiguous()


Sees = Callable[[Tensor, Tensor], Tensor]  # (Q, 1) and (1, S) positions -> whether the query looks at the key


def _attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    sharing = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
    scores = q @ k.mT / q.size(-1) ** 0.5
    if is_causal:
        later = torch.ones(q.size(2), k.size(2), dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


@lru_cache(maxsize=256)
def oracle(label: str, count: int, number: int, turn: int) -> WholeRun:
    """In float64, from the numbers as they were given."""
    one = SITUATIONS[label]
    *given, grad = (x.double() for x in whole_of(label, count, number, turn))
    q, k, v = (x.requires_grad_() for x in given)
    out = _attention(q, k, v, one.is_causal)
    if one.is_stacked:
        out = _attention(out, k, v, one.is_causal)
    out.backward(grad)
    found = zip(NAMES, (q.grad, k.grad, v.grad), strict=True)
    return WholeRun(out.detach(), {name: x for name, x in found if x is not None and name in one.needs})
