"""10.experts: layers of experts on which an answer is tried, and the tokens of each rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "AWKWARD",
    "BACKWARD",
    "BALANCE",
    "CAPACITY",
    "COARSE",
    "EXCHANGE",
    "FROZEN",
    "GROUPS",
    "NOBODY",
    "NO_TOKENS",
    "PUSH",
    "ROUNDS",
    "SITUATIONS",
    "TWO_LAYERS",
    "UNEVEN",
    "VALUES",
    "ExpertsSituation",
    "WatchedExpert",
    "given_modules",
    "layer_weights",
    "tokens_of",
]

ROUNDS = 3  # calls of one layer, each with other tokens: the first is plain, the next recorded, the last weighed
PUSH = 0.7  # by what the load-balancing loss is multiplied before backward


@dataclass(frozen=True)
class ExpertsSituation:
    """A layer whose experts the ranks of a group share out, and how many tokens each rank has."""

    tokens: int = 24
    order: str = "equal"  # or uneven, none
    width: int = 16
    per_rank: int = 2  # experts on each rank
    top_k: int = 2
    capacity_factor: float | None = None
    dtype: torch.dtype = torch.float64
    shape: tuple[int, ...] = ()  # of the tokens of a rank, in place of (N,)
    goes_back: bool = True
    needs_x: bool = True  # whether x gets a gradient
    balances: bool = False
    is_shunned: bool = False  # nobody chooses the experts of one rank
    is_far: bool = False  # the scores of all experts are large, and near each other
    frozen_place: int | None = None  # whose experts learn nothing
    group: str = "all"  # or pair, one
    num_layers: int = 1  # called in turn, each with weights and tokens of its own
    is_counted: bool = True  # bytes, calls and memory

    @property
    def within(self) -> float:
        """How far a right number may be off, relative to the largest of its tensor."""
        if self.dtype is torch.bfloat16:
            return 2.0**-5
        return 1e-6 if self.balances else 1e-10  # whole numbers, as counts are, are divided in float32

    def members(self, world_size: int) -> tuple[int, ...]:
        """The ranks that share out the experts."""
        if self.group == "all" or world_size == 1:
            return tuple(range(world_size))
        if self.group == "one":
            return (world_size - 1,)
        return (1, world_size - 1) if world_size > 2 else (0, 1)

    def num_experts(self, count: int) -> int:
        """Of ``count`` ranks together."""
        return self.per_rank * count if count > 1 else 4

    def chosen(self, count: int) -> int:
        """k: how many experts a token has; 0 as ``top_k`` means all."""
        return self.top_k or self.num_experts(count)

    def num_tokens(self, count: int) -> list[int]:
        """Of each place in the group."""
        if self.order == "uneven":
            return [self.tokens - 5, 7, self.tokens + 9, 1, 12][:count]
        if self.order == "none":
            return [self.tokens, 0, 9, 5, 3][:count] if count > 1 else [self.tokens]
        return [self.tokens] * count

    def own_experts(self, place: int, count: int) -> range:
        """The numbers of the experts of this place."""
        per_rank = self.num_experts(count) // count
        return range(place * per_rank, (place + 1) * per_rank)


UNEVEN = "different numbers of tokens"
NO_TOKENS, NOBODY = "a rank without tokens", "experts that nobody chooses"
COARSE, FROZEN, TWO_LAYERS = "bfloat16", "frozen experts on one rank", "two layers by turns"
GROUPS = ("two ranks of them, who share experts", "one rank of them, with all its experts")
SITUATIONS = {
    "two experts for each token": ExpertsSituation(goes_back=False),
    "one expert for each token, (B, T, D)": ExpertsSituation(shape=(4, 6), top_k=1, goes_back=False),
    "gradients": ExpertsSituation(),
    "gradients of three experts for each token": ExpertsSituation(per_rank=3, top_k=3),
    UNEVEN: ExpertsSituation(order="uneven"),
    "a wider layer": ExpertsSituation(width=32, tokens=32),
    "room for the even share": ExpertsSituation(capacity_factor=1.0),
    "room for half of it": ExpertsSituation(capacity_factor=0.5, order="uneven"),
    "room for all": ExpertsSituation(capacity_factor=16.0, top_k=1),
    "balance": ExpertsSituation(balances=True),
    "balance of different numbers of tokens": ExpertsSituation(order="uneven", balances=True),
    "balance with little room": ExpertsSituation(balances=True, capacity_factor=0.75),
    NO_TOKENS: ExpertsSituation(order="none", balances=True, is_counted=False),
    NOBODY: ExpertsSituation(is_shunned=True, is_counted=False),
    "all experts for each token": ExpertsSituation(top_k=0, tokens=10, is_counted=False),
    COARSE: ExpertsSituation(dtype=torch.bfloat16, is_far=True, tokens=96, is_counted=False),
    FROZEN: ExpertsSituation(frozen_place=1, needs_x=False, is_counted=False),
    TWO_LAYERS: ExpertsSituation(num_layers=2, is_counted=False),
    GROUPS[0]: ExpertsSituation(group="pair", balances=True, is_counted=False),
    GROUPS[1]: ExpertsSituation(group="one", balances=True, is_counted=False),
}
_LABELS = tuple(SITUATIONS)
VALUES, BACKWARD, EXCHANGE, CAPACITY, BALANCE, AWKWARD = (
    _LABELS[:2],
    _LABELS[2:4],
    _LABELS[4:6],
    _LABELS[6:9],
    _LABELS[9:12],
    _LABELS[12:],
)


@lru_cache(maxsize=128)
def layer_weights(label: str, count: int, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the layer of this number: the router (E, D), and of all experts (E, D, D) twice, up and down."""
    one = SITUATIONS[label]
    width, num_experts = one.width, one.num_experts(count)
    draw = torch.Generator().manual_seed(1000 + 10 * number + count)
    router = torch.randn(num_experts, width, generator=draw, dtype=torch.float64) * 2 / math.sqrt(width)
    up, down = (
        torch.randn(num_experts, width, width, generator=draw, dtype=torch.float64) / math.sqrt(width) for _ in range(2)
    )
    if one.is_far:
        router[:, 0] = 5.0
    if one.is_shunned:
        router[:, 0] = 0.0
        router[one.own_experts(1, count) if count > 1 else range(1), 0] = -5.0
    return router.to(one.dtype), up.to(one.dtype), down.to(one.dtype)


@lru_cache(maxsize=256)
def tokens_of(label: str, count: int, number: int, turn: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """Of each place: its tokens (N, D), and the gradient of its output."""
    one = SITUATIONS[label]
    draw = torch.Generator().manual_seed(100 * turn + 10 * number + count)

    def made() -> Iterator[tuple[Tensor, Tensor]]:
        for num_tokens in one.num_tokens(count):
            both = torch.randn(2, num_tokens, one.width, generator=draw, dtype=torch.float64)
            if one.is_far or one.is_shunned:
                both[0, :, 0] = 4.0
            shape = (*(one.shape or (num_tokens,)), one.width)
            yield both[0].view(shape).to(one.dtype), both[1].view(shape).to(one.dtype)

    return tuple(made())


class WatchedExpert(nn.Module):
    """One expert, (R, D) -> (R, D), which counts its calls and the rows of each."""

    def __init__(self, up: Tensor, down: Tensor, *, learns: bool = True) -> None:
        super().__init__()
        self.up, self.down = (nn.Parameter(weight.clone(), requires_grad=learns) for weight in (up, down))
        self.rows: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return F.linear(F.gelu(F.linear(x, self.up)), self.down)


def given_modules(label: str, count: int, place: int, number: int) -> tuple[nn.Linear, list[WatchedExpert]]:
    """The router and this place's experts, new ones, on the CPU."""
    one = SITUATIONS[label]
    router, up, down = layer_weights(label, count, number)
    linear = nn.Linear(one.width, len(router), bias=False, dtype=one.dtype)
    with torch.no_grad():
        linear.weight.copy_(router)
    learns = place != one.frozen_place
    return linear, [WatchedExpert(up[e], down[e], learns=learns) for e in one.own_experts(place, count)]
