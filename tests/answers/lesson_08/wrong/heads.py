"""08.heads: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.heads.wrong_answers import keep, split_attention
from course_lib.models import Attention, TransformerConfig
from course_lib.parallel.tensor import HeadParallelAttention, identity_all_reduce


def by_the_library(me: Rank, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor, num_heads: int) -> Tensor:
    """The course's own layer, with the weights that were given put in."""
    sizes = TransformerConfig(width=w_q.size(1), num_heads=num_heads, bias=False)
    layer = HeadParallelAttention(me, Attention(sizes))
    given = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_out": w_out}
    return torch.func.functional_call(layer, {f"{name}.weight": one for name, one in given.items()}, (x,))


EXERCISE = "08.heads"
EXAMPLES: dict[str, Any] = {
    "three-entrances": split_attention(enter=keep, enter_each=identity_all_reduce),
}


FORBIDDEN = by_the_library
