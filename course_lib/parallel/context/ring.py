"""Ring attention: queries stay where they are, keys and values go round, and partial results are joined.

With 4 ranks, this is what rank 1 does::

    step 0    computes with its own keys       its keys go to rank 2      those of rank 0 arrive
    step 1    computes with those of rank 0    which go on to rank 2      those of rank 3 arrive
    step 2    computes with those of rank 3    which go on to rank 2      those of rank 2 arrive
    step 3    computes with those of rank 2

Backward, keys and values go round once more (only a rank's own are kept), and beside them their gradients, to which
each rank adds its part. A message is hidden when it takes no longer than the step's arithmetic, which grows with the
square of a rank's positions, and the message with their number: long contexts hide it, short ones do not.

Source: Liu, Zaharia and Abbeel, *Ring Attention with Blockwise Transformers for Near-Infinite Context* (2023).
Production code uses ``torch.distributed.tensor.experimental.context_parallel`` (a prototype, on GPUs) with its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.position_cut import PositionCut, TilePair
from course_lib.parallel.collectives.autocast import as_autocast
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.context.checks import check_parts
from course_lib.parallel.context.online_softmax import RunningAttention, attend, attend_backward
from course_lib.parallel.context.ring_exchange import Rows, SumsAround, blocks_around

__all__ = ["TILE", "ring_attention"]

TILE = 1024  # positions: a tile's scores are B H TILE^2 numbers, however long the sequence


@checked
def ring_attention(
    me: Rank,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cut: PositionCut,
    *,
    is_causal: bool = True,
    group: dist.ProcessGroup | None = None,
    tile: int = TILE,
    skip_unseen: bool = False,
    pair_counts: list[int] | None = None,
) -> Tensor:
    """Attention of this rank's queries to everybody's keys: (B, H, T_r, K) -> same.

    q: (B, H, T_r, K), k and v: (B, G, T_r, K), where T_r is ``cut.size(group_rank)``, and H is a multiple of G. Each
    rank of ``group`` (None: all) calls with its own positions and the same ``cut``. Scores and sums are float32 at
    least; messages have the dtype of k, and gradients that travel that of the sums. Under autocast q, k and v are cast
    first, as ``scaled_dot_product_attention`` does.

    Sent by each rank: 2 (n - 1) / n of the keys' bytes of the whole sequence forward (keys and values), twice as many
    backward (these again, and their gradients). Kept for backward: q, k, v, the output, and a number a query and head.
    With ``skip_unseen`` a key stays back where no rank further on looks at it, and a gradient sets out where the first
    rank adds to it: fewer bytes, the same result. To ``pair_counts`` the forward pass appends how many pairs of query
    and key it has computed in each step.
    A ``ValueError`` for shapes that do not belong to the cut, and for a cut among another number of ranks.
    """
    members = Members.of(me, group)
    q, k, v = (as_autocast(x) for x in (q, k, v))
    check_parts(members, cut, q, k, v)
    at_least(1, tile=tile)
    return _RingAttention.apply(members, cut, is_causal, tile, skip_unseen, pair_counts, q, k, v)


class _RingAttention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        members: Members,
        cut: PositionCut,
        is_causal: bool,
        tile: int,
        skip_unseen: bool,
        pair_counts: list[int] | None,
        q: Tensor,
        k: Tensor,
        v: Tensor,
    ) -> Tensor:
        ctx.members, ctx.cut, ctx.options = members, cut, {"tile": tile, "is_causal": is_causal}
        ctx.rows = None, None  # that are passed on, of blocks and of sums; None: all
        if skip_unseen:
            still_to_look = _rows_seen(cut, is_causal, lambda step: range(step + 1, cut.num_ranks))
            have_looked = _rows_seen(cut, is_causal, lambda step: range(1, step + 1))
            ctx.rows = still_to_look, have_looked
        queries = _summable(q)
        running = RunningAttention(queries)
        with _no_autocast(q):
            for owner, block in blocks_around(members, torch.stack([k, v]), cut.sizes, ctx.rows[0]):
                pairs = list(cut.tile_pairs(members.group_rank, owner, **ctx.options))
                _attend_to_block(running, queries, block, pairs)
                if pair_counts is not None:
                    pair_counts.append(sum(pair.num_pairs for pair in pairs))
                del block  # the next one needs the room
        out = running.out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, running.lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        members, cut = ctx.members, ctx.cut
        queries, grad = _summable(q), _summable(grad_out)
        of_queries = queries, lse, grad, (grad * out).sum(-1)  # (B, H, T_r, K), (B, H, T_r), and so again
        grad_q, sums = torch.zeros_like(queries), SumsAround(members, cut.sizes, ctx.rows[1])
        with _no_autocast(q):
            for owner, block in blocks_around(members, torch.stack([k, v]), cut.sizes, ctx.rows[0]):
                pairs = cut.tile_pairs(members.group_rank, owner, **ctx.options)
                sums.add(owner, _block_gradients(grad_q, of_queries, block, pairs))
                del block
        grad_k, grad_v = sums.at_home().to(k.dtype)
        return *[None] * 6, grad_q.to(q.dtype), grad_k, grad_v


def _rows_seen(cut: PositionCut, is_causal: bool, hops: Callable[[int], range]) -> Rows:
    """Of an owner's block, the keys that a rank so many hops behind the owner looks at; ``hops`` by step."""

    def rows(owner: int, step: int) -> Sequence[slice]:
        return cut.seen_by(owner, [(owner + hop) % cut.num_ranks for hop in hops(step)], is_causal=is_causal)

    return rows


def _attend_to_block(running: RunningAttention, q: Tensor, block: Tensor, pairs: Iterable[TilePair]) -> None:
    """Join to ``running`` what the queries (B, H, T_r, K) find in a block of keys and values (2, B, G, T_o, K)."""
    k, v = _summable(block)
    for pair in pairs:
        mine, theirs = pair.queries, pair.keys
        found = attend(q[:, :, mine], k[:, :, theirs], v[:, :, theirs], is_diagonal=pair.is_diagonal)
        running.add(mine, *found)


def _block_gradients(grad_q: Tensor, of_queries: Sequence[Tensor], block: Tensor, pairs: Iterable[TilePair]) -> Tensor:
    """This rank's part of the gradient of a block (2, B, G, T_o, K); its part of that of q is added to ``grad_q``."""
    k, v = _summable(block)
    grad_k, grad_v = part = torch.zeros_like(block, dtype=grad_q.dtype)
    for pair in pairs:
        mine, theirs = pair.queries, pair.keys
        q, lse, grad_out, dots = (each[:, :, mine] for each in of_queries)
        found = attend_backward(q, k[:, :, theirs], v[:, :, theirs], lse, grad_out, dots, is_diagonal=pair.is_diagonal)
        grad_q[:, :, mine] += found[0]
        grad_k[:, :, theirs] += found[1]
        grad_v[:, :, theirs] += found[2]
    return part


def _summable(x: Tensor) -> Tensor:
    """``x`` in float32 at least: many small numbers are about to be added up."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Products keep the dtype of their factors, whatever the caller has switched on."""
    kind = x.device.type
    is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if is_on else nullcontext()
