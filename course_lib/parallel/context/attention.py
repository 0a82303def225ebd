"""The attention of a transformer whose sequences are cut among ranks."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models.transformer import Attention
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.context.all_to_all import all_to_all_attention
from course_lib.parallel.context.checks import check_heads, check_ranks
from course_lib.parallel.context.ring import TILE, ring_attention
from course_lib.parallel.data.replica_check import check_replicas, tensors_of

__all__ = ["WAYS", "ContextParallelAttention"]

WAYS = ("ring", "all_to_all")


@checked
class ContextParallelAttention(nn.Module):
    """Causal attention of this rank's positions to everybody's: (B, T_r, D) -> same.

    The matrices are those of ``attention``, on every rank all of them: a matrix works on one position at a time and
    needs no message. ``way`` is "ring" or "all_to_all". Dropout of the attention weights is not there: its mask would
    have to be drawn for each pair of tiles, and drawn again in the backward pass.

    A ``ValueError`` for matrices that differ between ranks, which compare them once, for attention with dropout, an
    unknown way, a cut among another number of ranks, and, for "all_to_all", heads that do not divide among the ranks.
    """

    def __init__(
        self,
        me: Rank,
        attention: Attention,
        cut: SequenceCut,
        *,
        way: str = "ring",
        group: dist.ProcessGroup | None = None,
        tile: int = TILE,
    ) -> None:
        super().__init__()
        self.me, self.cut, self.group = me, cut, group
        self.way, self.tile, self.head_dim = known("way", way, WAYS), tile, attention.head_dim
        at_least(1, tile=tile)
        check_ranks(members := Members.of(me, group), cut)
        if attention.dropout.p:
            raise ValueError(
                f"dropout is {attention.dropout.p}; attention over a sequence that is cut among ranks has no dropout: "
                "set it to 0"
            )
        check_replicas(me, members, type(self).__name__, tensors_of(attention))
        self.w_q, self.w_k, self.w_v, self.w_out = attention.w_q, attention.w_k, attention.w_v, attention.w_out
        if way == "all_to_all":
            num_heads, num_kv_heads = (w.out_features // self.head_dim for w in (self.w_q, self.w_k))
            check_heads(members, num_heads, num_kv_heads)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T_r, D) -> (B, T_r, D)."""
        q, k, v = (  # (B, H, T_r, K), (B, G, T_r, K) twice
            w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v)
        )
        if self.way == "ring":
            y = ring_attention(self.me, q, k, v, self.cut, group=self.group, tile=self.tile)
        else:
            y = all_to_all_attention(self.me, q, k, v, self.cut, group=self.group)
        return self.w_out(y.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return f"{self.way}, {self.cut}"
