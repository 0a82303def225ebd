"""04.valid_tokens: batches in micro-batches of valid and other tokens, and the gradients of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.parallel.data.uneven_batches import IGNORED

__all__ = [
    "EQUAL",
    "KINDS",
    "LAST",
    "NONE",
    "RAGGED",
    "SILENT",
    "STEPS",
    "TokenCounts",
    "Weigh",
    "gradient",
    "make_model",
    "over",
    "pairs_of",
    "part_of_loss",
]

EQUAL = "as many valid tokens in every micro-batch"
LAST = "a last micro-batch without a valid token"
SILENT = "a rank without a valid token"
RAGGED = "more micro-batches on some ranks"
NONE = "no valid token anywhere"
UNEVEN = "other masks in every micro-batch, one of them long"
KINDS = (EQUAL, UNEVEN, LAST, SILENT, RAGGED, NONE)
STEPS = 2  # the answer is called so often on one model
_VOCAB = 7


def make_model() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(24)
        return nn.Sequential(nn.Embedding(_VOCAB, 5), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, _VOCAB)).double()


@lru_cache(maxsize=512)
def pairs_of(kind: str, rank: int, num_ranks: int, step: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """Tokens and targets of each micro-batch of a rank."""
    seed = 1000 * KINDS.index(kind) + 10 * rank
    draw, draw_sizes = (torch.Generator().manual_seed(seed + more) for more in (step, 0))
    if kind != UNEVEN:
        draw_sizes = draw  # in UNEVEN a step has the sizes of the one before, and other masks
    count = 1 + (rank + 1) % 3 if kind == RAGGED else 3
    found = []
    for index in range(count):
        is_long = kind == UNEVEN and index == 1
        rows, length = (2, 300) if is_long else torch.randint(2, 7, (2,), generator=draw_sizes).tolist()
        tokens, targets = torch.randint(0, _VOCAB, (2, rows, length), generator=draw).unbind()
        valid = torch.rand(rows, length, generator=draw) < (0.2, 0.5, 0.9)[(rank + index + step) % 3]
        valid[0, 0] = True
        if kind == EQUAL:
            valid = torch.arange(rows * length).reshape(rows, length) < 3
        last_of_all = rank == num_ranks - 1 and index == count - 1
        if kind == NONE or (kind == SILENT and rank == 0) or (kind == LAST and last_of_all):
            valid[:] = False
        found.append((tokens, targets.masked_fill(~valid, IGNORED)))
    return tuple(found)


# -- what is right, and what it would be with other weights -------------------------------------------------------


@lru_cache(maxsize=512)
def _summed(kind: str, rank: int, num_ranks: int, step: int) -> tuple[tuple[float, dict[str, Tensor]], ...]:
    """By micro-batch: the sum of its losses, and the gradients of that, in one process."""
    found = []
    for tokens, targets in pairs_of(kind, rank, num_ranks, step):
        model = make_model()
        loss = F.cross_entropy(model(tokens).transpose(1, 2), targets, reduction="sum")
        loss.backward()
        found.append((loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}))
    return tuple(found)


@dataclass(frozen=True)
class TokenCounts:
    """How many tokens each micro-batch has, how many are valid, and how many targets are above 0: by rank, then by
    micro-batch.
    """

    valid: list[list[int]]
    sizes: list[list[int]]
    above_zero: list[list[int]]

    @property
    def num_valid(self) -> int:
        return sum(map(sum, self.valid))


Weigh = Callable[[TokenCounts, int, int], float]  # (batch, rank, index of the micro-batch)


def over(number: float) -> float:
    """1 / number. Of nothing it is 0: PyTorch's gradients for targets of -100 are 0, whatever divides them."""
    return 1 / number if number else 0.0


def _batch(kind: str, num_ranks: int, step: int) -> TokenCounts:
    targets = [[y for _, y in pairs_of(kind, rank, num_ranks, step)] for rank in range(num_ranks)]
    return TokenCounts(
        valid=[[int((y != IGNORED).sum()) for y in own] for own in targets],
        sizes=[[y.numel() for y in own] for own in targets],
        above_zero=[[int((y > 0).sum()) for y in own] for own in targets],
    )


def _per_token(batch: TokenCounts, rank: int, index: int) -> float:
    return over(batch.num_valid)


def gradient(kind: str, num_ranks: int, step: int, weigh: Weigh = _per_token) -> dict[str, Tensor]:
    """Where each micro-batch's sum of losses is multiplied by ``weigh``."""
    batch, total = _batch(kind, num_ranks, step), {n: torch.zeros_like(p) for n, p in make_model().named_parameters()}
    for rank in range(num_ranks):
        for index, (_, gradients) in enumerate(_summed(kind, rank, num_ranks, step)):
            for name, one in gradients.items():
                total[name] += one * weigh(batch, rank, index)
    return total


def part_of_loss(kind: str, rank: int, num_ranks: int, step: int) -> float:
    """What this rank adds to the loss of the batch."""
    sums = (loss for loss, _ in _summed(kind, rank, num_ranks, step))
    return sum(sums) * over(_batch(kind, num_ranks, step).num_valid)
