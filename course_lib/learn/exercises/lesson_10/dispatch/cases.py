"""10.dispatch: tokens that chose experts, on ranks that hold some of them; and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

__all__ = [
    "KINDS",
    "WIDTH",
    "DispatchKind",
    "Tokens",
    "made_by",
    "num_experts_of",
    "outputs_of",
    "own_experts",
    "right_out",
    "rows_computed",
    "rows_to_send",
    "tokens_of",
]

WIDTH = 128  # a row is a kilobyte


class DispatchKind:
    """The cases; each completes "with ..."."""

    EVEN = "as many tokens on every rank"
    UNEVEN = "more tokens on the later ranks, and favourite experts"
    SINGLE = "one choice for each token, and one expert on each rank"
    THREE = "three choices for each token, and three experts on each rank"
    HOME = "tokens all of whose experts are on their own rank"
    IDLE = "no token for any expert but rank 0's"
    NONE = "no tokens on rank 1"
    ANEW = "as many tokens as in the first case, of another batch"


KINDS = (
    DispatchKind.EVEN,
    DispatchKind.UNEVEN,
    DispatchKind.SINGLE,
    DispatchKind.THREE,
    DispatchKind.HOME,
    DispatchKind.IDLE,
    DispatchKind.NONE,
    DispatchKind.ANEW,  # the last one is tried after the first in one process: what is kept of that shape is wrong here
)

_TOP_K = {DispatchKind.SINGLE: 1, DispatchKind.THREE: 3}
_EXPERTS_OF_A_RANK = {DispatchKind.SINGLE: 1, DispatchKind.THREE: 3}


@dataclass(frozen=True)
class Tokens:
    """What a rank is given."""

    rows: Tensor  # (N, D)
    chosen: Tensor  # (N, k)
    weights: Tensor  # (N, k)


def num_experts_of(kind: str, num_ranks: int) -> int:
    return _EXPERTS_OF_A_RANK.get(kind, 2) * num_ranks


def own_experts(kind: str, rank: int, num_ranks: int) -> range:
    """The numbers of the experts on this rank."""
    num_own = num_experts_of(kind, num_ranks) // num_ranks
    return range(rank * num_own, (rank + 1) * num_own)


def made_by(expert: int, rows: Tensor) -> Tensor:
    """An expert's output: (R, D) -> (R, D). No two experts are alike, and none is linear."""
    return torch.tanh((0.3 + 0.25 * expert) * rows + rows.roll(expert + 1, dims=-1)) + 0.1 * expert


@lru_cache(maxsize=128)
def tokens_of(kind: str, rank: int, num_ranks: int) -> Tokens:
    """The tokens of a rank, with numbers that a seed decides."""
    draw = torch.Generator().manual_seed(100 + 10 * KINDS.index(kind) + rank)
    of_kind = {DispatchKind.EVEN: 5, DispatchKind.ANEW: 5, DispatchKind.NONE: 0 if rank == 1 else 6}
    num_tokens = of_kind.get(kind, 4 + 3 * rank)
    top_k = _TOP_K.get(kind, 2)
    rows = torch.randn(num_tokens, WIDTH, generator=draw, dtype=torch.float64)
    scores = torch.rand(num_tokens, num_experts_of(kind, num_ranks), generator=draw)
    if kind == DispatchKind.UNEVEN:
        scores[:, 0], scores[:, 1] = -1.0, scores[:, 1] + 0.4  # nobody wants expert 0, many want expert 1
    allowed = {
        DispatchKind.HOME: own_experts(kind, rank, num_ranks),
        DispatchKind.IDLE: own_experts(kind, 0, num_ranks),
    }
    if kind in allowed:
        scores[:, list(allowed[kind])] += 2.0
    chosen = scores.topk(top_k).indices if num_tokens else torch.empty(0, top_k, dtype=torch.int64)
    weights = 0.1 + 0.8 * torch.rand(num_tokens, top_k, generator=draw, dtype=torch.float64)  # in no order
    return Tokens(rows, chosen, weights)


@lru_cache(maxsize=128)
def outputs_of(kind: str, rank: int, num_ranks: int) -> Tensor:
    """What each choice's expert makes of the token, without weights: (N, k, D)."""
    given = tokens_of(kind, rank, num_ranks)
    out = torch.zeros(*given.chosen.shape, WIDTH, dtype=torch.float64)
    for token, choice in torch.ones_like(given.chosen).nonzero().tolist():
        out[token, choice] = made_by(int(given.chosen[token, choice]), given.rows[token])
    return out


def right_out(kind: str, rank: int, num_ranks: int) -> Tensor:
    """(N, D)."""
    weights = tokens_of(kind, rank, num_ranks).weights
    return (outputs_of(kind, rank, num_ranks) * weights.unsqueeze(-1)).sum(1)


def rows_computed(kind: str, rank: int, num_ranks: int) -> dict[int, int]:
    """How many rows each expert of this rank gets, of all ranks."""
    chosen = torch.cat([tokens_of(kind, one, num_ranks).chosen.flatten() for one in range(num_ranks)])
    return {expert: int((chosen == expert).sum()) for expert in own_experts(kind, rank, num_ranks)}


def rows_to_send(kind: str, rank: int, num_ranks: int) -> int:
    """Rows for experts of other ranks, and outputs for tokens of other ranks."""
    mine, num_rows = own_experts(kind, rank, num_ranks), 0
    for one in range(num_ranks):
        chosen = tokens_of(kind, one, num_ranks).chosen.flatten().tolist()
        num_rows += sum((expert in mine) != (one == rank) for expert in chosen if one == rank or expert in mine)
    return num_rows
