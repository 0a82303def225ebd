"""08.positions: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.positions import _block
from course_lib.parallel.tensor import (
    SequenceParallelNorm,
    all_gather_reduce_scatter,
    identity_all_reduce,
    reduce_scatter_all_gather,
)


def _norm_of_all(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """All gradients right: gathered first, and then the norm, inside the region."""
    h = F.layer_norm(all_gather_reduce_scatter(me, x), (x.size(-1),), identity_all_reduce(me, norm_weight))
    return x + reduce_scatter_all_gather(me, F.linear(F.gelu(F.linear(h, w_up)), w_down))


def _by_the_library(me: Rank, x: Tensor, norm_weight: Tensor) -> Tensor:
    norm = SequenceParallelNorm(me, nn.LayerNorm(x.size(-1), bias=False))
    return torch.func.functional_call(norm, {"weight": norm_weight}, (x,))


EXERCISE = "08.positions"
EXAMPLES: dict[str, Any] = {
    "norm-of-all-positions": _norm_of_all,
}


FORBIDDEN = _block(norm=_by_the_library)
