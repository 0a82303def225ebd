"""Attention by heads: each rank has some of the heads, from their queries to their rows of ``w_out``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checked import checked
from course_lib.base.checks import nearest_multiple
from course_lib.cluster.base.rank import Rank
from course_lib.models.transformer import Attention
from course_lib.parallel.data.replica_check import checked_as_one
from course_lib.parallel.tensor.layers import ColumnParallelLinear, RowParallelLinear
from course_lib.parallel.tensor.overlapped_column_parallel import enter_and_multiply
from course_lib.parallel.tensor.randomness import OwnDropout, own_random_numbers
from course_lib.parallel.tensor.region import Region

__all__ = ["HeadParallelAttention"]


@checked
class HeadParallelAttention(nn.Module):
    """Causal attention over this rank's heads: (B, T, D) -> (B, T, D).

    B batch, T tokens, D width, n ranks, H query heads, G key/value heads, K numbers in a head. Rank r has query heads
    r H/n onwards and the key/value heads r G/n onwards, which are the ones that they share. Heads do not look at each
    other, so all the communication is at the gates: forward one all-reduce, backward another (queries, keys and values
    read the same input, so their gradients are added up first). With ``sequence_parallel`` the stream is (B, T/n, D),
    and the gates gather and scatter. Attention weights are dropped by a mask of each rank's own, the output by a mask
    that is the same for all (with ``sequence_parallel``: of each rank's own).

    A ``ValueError`` where H or G does not divide by n: half a head cannot be computed.
    """

    def __init__(
        self,
        me: Rank,
        attention: Attention,
        *,
        group: dist.ProcessGroup | None = None,
        sequence_parallel: bool = False,
        regather: bool = False,
    ) -> None:
        super().__init__()
        self.region = Region(me, group, sequence_parallel, regather)
        self.head_dim = attention.head_dim
        _check_heads(attention, self.region.members.count)
        entering: dict[str, Any] = {
            "group": group,
            "sequence_parallel": sequence_parallel,
            "regather": regather,
        }
        with checked_as_one(me, self.region.members, type(self).__name__, attention):
            self.w_q = ColumnParallelLinear(me, attention.w_q, **entering)
            self.w_k = ColumnParallelLinear(me, attention.w_k, **entering)
            self.w_v = ColumnParallelLinear(me, attention.w_v, **entering)
            self.w_out = RowParallelLinear(me, attention.w_out, group=group, sequence_parallel=sequence_parallel)
        self.dropout = OwnDropout(self.region, attention.dropout.p) if sequence_parallel else attention.dropout
        self.attention_dropout_p = attention.dropout.p

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D); with sequence parallelism (B, T/n, D) -> same."""
        layers = (self.w_q, self.w_k, self.w_v)
        q, k, v = (
            y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H/n, T, K), (B, G/n, T, K) twice
            for y in enter_and_multiply(
                self.region, x, [layer.weight for layer in layers], [layer.bias for layer in layers]
            )
        )
        dropout_p = self.attention_dropout_p if self.training else 0.0
        with own_random_numbers(self.region) if dropout_p else nullcontext():
            y = F.scaled_dot_product_attention(
                q, k, v, dropout_p=dropout_p, is_causal=True, enable_gqa=q.size(1) != k.size(1)
            )
        y = y.transpose(1, 2).flatten(2)  # (B, T, H/n K)
        return self.dropout(self.w_out(y))


def _check_heads(attention: Attention, num_ranks: int) -> None:
    for name, layer in (("query", attention.w_q), ("key/value", attention.w_k)):
        heads = layer.out_features // attention.head_dim
        if heads % num_ranks:
            ranks = max(n for n in range(1, num_ranks + 1) if heads % n == 0)
            raise ValueError(
                f"{heads} {name} heads do not divide among {num_ranks} ranks: a head is computed on one rank. Take "
                f"{ranks} rank{'s' * (ranks > 1)}, or a model with {nearest_multiple(heads, num_ranks)} {name} heads."
            )
