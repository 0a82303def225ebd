"""08.logits: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import gather_logits


def _by_the_library(me: Rank, h: Tensor, w_vocab: Tensor) -> Tensor:
    return gather_logits(me, F.linear(h, w_vocab), vocab_size=me.world_size * len(w_vocab))


EXERCISE = "08.logits"
FORBIDDEN = _by_the_library
