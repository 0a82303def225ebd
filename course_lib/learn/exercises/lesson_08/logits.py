"""08.logits: the clinic's gather, mended: all logits on every rank, each in the row of its position."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_08.tries import made
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_ranks

__all__ = ["LOGITS"]

_SIZES = ((3, 4, 2), (1, 3, 5), (4, 2, 1))  # positions, width, tokens a rank


def _args(positions: int, width: int, size: int) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    def of_rank(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        weights = made("w_vocab", size * world_size, width)
        return made("h", positions, width), weights.chunk(world_size)[rank].clone()

    return of_rank


def _right(positions: int, width: int, size: int) -> Callable[[int, int], Tensor]:
    return lambda rank, world_size: F.linear(made("h", positions, width), made("w_vocab", size * world_size, width))


def _parts(me: Rank, h: Tensor, w_vocab: Tensor) -> list[Tensor]:
    mine = F.linear(h, w_vocab)
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    return parts


def _joined(join: Callable[[list[Tensor], Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda me, h, w_vocab: join(_parts(me, h, w_vocab), h)


LOGITS = Exercise(
    name="08.logits",
    title="All logits on every rank",
    judge=by_ranks(
        (2, 3),
        [
            Case(
                f"{n} position{'s' * (n > 1)}, {v} token{'s' * (v > 1)} a rank",
                _args(n, d, v),
                _right(n, d, v),
            )
            for n, d, v in _SIZES
        ],
        compare=close_to(1e-9, 1e-12),
    ),
    mistakes=(
        Mistake(
            "as-it-was",
            "The shape is right, but numbers stand in wrong rows. `torch.cat` without a dim puts the parts one below "
            "the other, and `view` then cuts the rows anew. Which dim of a part belongs to the tokens?",
            _joined(lambda parts, h: torch.cat(parts).view(len(h), -1)),
        ),
        Mistake(
            "one-below-the-other",
            "The parts stand one below the other: a row for each position *and rank*. Every part has all positions and "
            "some of the tokens; join them along the tokens.",
            _joined(lambda parts, h: torch.cat(parts)),
        ),
        Mistake(
            "tokens-interleaved",
            "Token 0 of every rank comes first, then token 1 of every rank. Rank r's first column is token `r * V/n`: "
            "its tokens stand together.",
            _joined(lambda parts, h: torch.stack(parts, dim=2).flatten(1)),
        ),
        Mistake(
            "added-up",
            "You added the parts up. They are logits of different tokens, each complete: put them side by side.",
            _joined(lambda parts, h: torch.stack(parts).sum(dim=0)),
        ),
        Mistake(
            "own-part-only",
            "These are the logits of this rank's own tokens. Every rank needs the logits of all tokens.",
            lambda me, h, w_vocab: F.linear(h, w_vocab),
        ),
        Mistake(
            "ranks-backwards",
            "The ranks' parts come in the wrong order: rank 0 has the first tokens.",
            _joined(lambda parts, h: torch.cat(parts[::-1], dim=1)),
        ),
    ),
    hints=(
        "What is the shape of one part, and which of its dims is cut among the ranks?",
        "(N, V/n): every part has all positions. Join along the dim of the tokens, and no `view` is needed.",
        "`return torch.cat(parts, dim=1)`.",
    ),
    forbidden=("course_lib.parallel.tensor.vocabulary.gather_logits",),
    passed="Each position has its own row, with the tokens of all ranks in order.",
)
