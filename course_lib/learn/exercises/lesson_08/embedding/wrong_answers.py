"""Wrong split embeddings, and right ones by forbidden or dear ways: what 08.embedding has to tell apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import all_reduce_identity

__all__ = [
    "by_place",
    "by_remainder",
    "by_token_number",
    "everybody",
    "keep",
    "largest_of_all",
    "not_waited_for",
    "split_embedding",
]

Found = tuple[Tensor, Tensor]  # places in this rank's table, and which of them count


def by_place(first: int = 0, last: int = 0) -> Callable[[Rank, Tensor, int], Found]:
    """The place among this rank's tokens; those that count begin and end so many too late."""

    def find(me: Rank, tokens: Tensor, size: int) -> Found:
        place = tokens - me.rank * size
        return place.clamp(0, size - 1), (place >= first) & (place < size + last)

    return find


def everybody(me: Rank, tokens: Tensor, size: int) -> Found:
    place = (tokens - me.rank * size).clamp(0, size - 1)
    return place, torch.ones_like(place, dtype=torch.bool)


def by_remainder(me: Rank, tokens: Tensor, size: int) -> Found:
    return tokens % size, torch.ones_like(tokens, dtype=torch.bool)


def by_token_number(me: Rank, tokens: Tensor, size: int) -> Found:
    return tokens.clamp(0, size - 1), tokens < size


def keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def not_waited_for(me: Rank, y: Tensor) -> Tensor:
    total = y.clone()
    dist.all_reduce(total, async_op=True)
    return y + (total - y).detach()


def largest_of_all(me: Rank, y: Tensor) -> Tensor:
    top = y.detach().clone()
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return y + (top - y).detach()


def split_embedding(
    *,
    find: Callable[[Rank, Tensor, int], Found] | None = None,
    leave: Callable[[Rank, Tensor], Tensor] = all_reduce_identity,
    table_through: Callable[[Rank, Tensor], Tensor] = keep,
) -> Callable[..., Tensor]:
    """A split embedding, right but for what the arguments change."""

    def answer(me: Rank, tokens: Tensor, table: Tensor) -> Tensor:
        table = table_through(me, table)
        place, is_here = (find or by_place())(me, tokens, table.size(0))
        vectors = F.embedding(place, table)
        return leave(me, torch.where(is_here[..., None], vectors, 0.0))

    return answer
