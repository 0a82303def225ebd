"""08.embedding: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.embedding.wrong_answers import split_embedding
from course_lib.parallel.tensor import VocabParallelEmbedding, all_gather_split, all_reduce_identity


def gathered_and_summed(me: Rank, y: Tensor) -> Tensor:
    """Right, by the vectors of all ranks, most of which are zeros."""
    parts = [torch.empty_like(y) for _ in range(me.world_size)]
    dist.all_gather(parts, y.detach())
    return y + (torch.stack(parts).sum(dim=0) - y).detach()


def looks_outside(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """Right about the place, wrong about it being there."""
    return all_reduce_identity(me, F.embedding(tokens - me.rank * len(table), table))


def gathers_the_table(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """Right, by the whole table on every rank."""
    return F.embedding(tokens, all_gather_split(me, table))


def by_the_library(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
    """The course's own layer, with the table that was given put in."""
    layer = VocabParallelEmbedding(me, nn.Embedding(me.world_size * table.size(0), table.size(1)))
    return torch.func.functional_call(layer, {"weight": table}, (tokens,))


EXERCISE = "08.embedding"
EXAMPLES: dict[str, Any] = {
    "looks-outside": looks_outside,
    "gathers-the-table": gathers_the_table,
    "gathers-the-vectors": split_embedding(leave=gathered_and_summed),
}


FORBIDDEN = by_the_library
