"""The cases of 10.join: what softmax makes of some keys and of others, and what it makes of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_10.join.labels import Label

__all__ = ["CASES", "found"]

_NONE = float("-inf")


def found(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (B, H, Q, S) and values (B, H, S, K) of S keys -> the output (B, H, Q, K) and its lse (B, H, Q).

    A key with a score of minus infinity is not seen. Where no key is, the output is 0 and lse minus infinity.
    """
    lse = scores.logsumexp(-1)
    weights = (scores - lse.unsqueeze(-1)).exp().nan_to_num(nan=0.0)
    return weights @ v, lse


def _case(
    label: str,
    sizes: tuple[int, int, int, int],
    keys: tuple[int, int],
    shifts: tuple[float, float] = (0.0, 0.0),
    of_queries: Sequence[float] = (),
    seen: Sequence[Sequence[int]] = (),
) -> Case:
    """``sizes`` are B, H, Q and K; ``keys`` how many each side has, and ``shifts`` what is added to their scores.

    ``of_queries`` is added to all scores of a query; ``seen`` says for each query which keys it sees (empty: all).
    """
    random = torch.Generator().manual_seed(len(label))
    batch, heads, length, head_dim = sizes
    scores = torch.randn(batch, heads, length, sum(keys), generator=random, dtype=torch.float64)
    v = torch.randn(batch, heads, sum(keys), head_dim, generator=random, dtype=torch.float64)
    scores += torch.tensor([shifts[0]] * keys[0] + [shifts[1]] * keys[1])
    if of_queries:
        scores += torch.tensor(of_queries).unsqueeze(-1)
    if seen:
        scores.masked_fill_(torch.tensor(seen) == 0, _NONE)
    sides = zip(scores.split(keys, -1), v.split(keys, -2), strict=True)
    return Case(label, tuple(found(*side) for side in sides), found(scores, v))


CASES = (
    _case(Label.PLAIN, (2, 3, 4, 5), (3, 3)),
    _case(Label.UNEVEN, (1, 2, 3, 4), (1, 6)),
    _case(Label.SINGLE, (1, 1, 1, 3), (2, 2)),
    _case(Label.SQUARE, (2, 2, 2, 2), (3, 2)),
    _case(Label.LARGE, (1, 2, 3, 4), (3, 3), (1000.0, 1000.0)),
    _case(Label.SMALL, (1, 2, 3, 4), (3, 3), (-1000.0, -1000.0)),
    _case(Label.FIRST_WINS, (1, 2, 3, 4), (2, 3), (1000.0, -1000.0)),
    _case(Label.SECOND_WINS, (1, 2, 3, 4), (2, 3), (-1000.0, 1000.0)),
    _case(Label.APART, (1, 2, 3, 4), (3, 3), of_queries=(1000.0, 0.0, -1000.0)),
    _case(Label.SECOND_EMPTY, (1, 2, 3, 4), (4, 0)),
    _case(Label.FIRST_EMPTY, (1, 2, 3, 4), (0, 4)),
    _case(Label.BOTH_EMPTY, (1, 2, 3, 4), (0, 0)),
    _case(Label.MIXED, (2, 1, 4, 3), (2, 2), seen=((1, 1, 1, 0), (1, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0))),
)
