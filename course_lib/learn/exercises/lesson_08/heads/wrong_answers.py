"""Wrong split attention, and right by a forbidden way: what 08.heads has to tell apart."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = [
    "heads_by_view",
    "heads_last",
    "joined_in_place",
    "keep",
    "not_turned",
    "not_waited_for",
    "split_attention",
    "thin_heads",
]

Step = Callable[[Rank, Tensor], Tensor]


def keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def not_waited_for(me: Rank, y: Tensor) -> Tensor:
    dist.all_reduce(y, async_op=True)
    return y


def own_heads(y: Tensor, num_heads: int, n: int) -> Tensor:
    """(B, T, D/n) -> (B, H/n, T, K)."""
    return y.unflatten(-1, (num_heads // n, -1)).transpose(1, 2)


def thin_heads(y: Tensor, num_heads: int, n: int) -> Tensor:
    """As many heads as the whole model has, each of them n times too thin."""
    return y.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def heads_by_view(y: Tensor, num_heads: int, n: int) -> Tensor:
    """The right shape at once, and the numbers in the order of memory."""
    return y.reshape(y.size(0), num_heads // n, y.size(1), -1)


def heads_last(y: Tensor, num_heads: int, n: int) -> Tensor:
    """Every so-manieth number of a row for a head, not numbers in a row."""
    return y.unflatten(-1, (-1, num_heads // n)).permute(0, 3, 1, 2)


def not_turned(y: Tensor, num_heads: int, n: int) -> Tensor:
    """(B, T, H/n, K): heads where positions belong."""
    return y.unflatten(-1, (num_heads // n, -1))


def turned_back(mixed: Tensor) -> Tensor:
    return mixed.transpose(1, 2).flatten(2)


def joined_in_place(mixed: Tensor) -> Tensor:
    """The right shape, and the numbers of one head in the rows of others."""
    batch_size, num_heads, length, head_dim = mixed.shape
    return mixed.reshape(batch_size, length, num_heads * head_dim)


def split_attention(
    *,
    enter: Step = identity_all_reduce,
    enter_each: Step = keep,
    leave: Step = all_reduce_identity,
    heads: Callable[[Tensor, int, int], Tensor] = own_heads,
    join: Callable[[Tensor], Tensor] = turned_back,
    is_causal: bool = True,
    own_scale: bool = False,
) -> Callable[..., Tensor]:
    """Split attention, right but for what the arguments change."""

    def answer(me: Rank, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_out: Tensor, num_heads: int) -> Tensor:
        h = enter(me, x)
        q, k, v = (heads(F.linear(enter_each(me, h), w), num_heads, me.world_size) for w in (w_q, w_k, w_v))
        scale = w_q.size(0) ** -0.5 if own_scale else None
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)
        return leave(me, F.linear(join(mixed), w_out))

    return answer
