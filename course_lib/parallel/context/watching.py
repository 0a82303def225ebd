"""A forward and a backward of attention over a sequence that is cut, under the meter, beside one process that has it
whole: what each rank sent, and how far off it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.base.checks import at_least, at_most, known
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.meter.communication.recorder import Recorder
from course_lib.parallel.context.all_to_all import all_to_all_attention
from course_lib.parallel.context.attention import WAYS
from course_lib.parallel.context.positions import own_positions
from course_lib.parallel.context.ring import ring_attention

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["WatchedAttention", "watched_attention"]


@dataclass(frozen=True)
class WatchedAttention:
    """What one rank sent, and the largest difference of its output and of its gradients of q, k and v to those that one
    process computes from the whole sequence."""

    forward_bytes: int
    backward_bytes: int
    output_off: float
    gradients_off: float

    @property
    def sent_bytes(self) -> int:
        """Forward and backward."""
        return self.forward_bytes + self.backward_bytes


def watched_attention(
    cluster: Cluster, cut: SequenceCut, *, way: str, num_heads: int, num_kv_heads: int, head_dim: int
) -> list[WatchedAttention]:
    """Causal attention of one random sequence, in float32, on the first ``cut.num_ranks`` ranks of the cluster.

    ``ValueError`` for a way that is not in ``WAYS`` and for more ranks than the cluster has; ``RankError`` where a rank
    fails, as for heads that do not divide.
    """
    known("way", way, WAYS)
    at_least(1, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim)
    at_most(cluster.world_size, num_ranks=cut.num_ranks)
    shapes = [(1, heads, cut.num_tokens, head_dim) for heads in (num_heads, num_kv_heads, num_kv_heads)]
    found = cluster.call(_both_passes, args=(cut, way, shapes), show=False)
    return list(found)[: cut.num_ranks]


def _both_passes(me: Rank, cut: SequenceCut, way: str, shapes: list[tuple[int, ...]]) -> WatchedAttention | None:
    """None on ranks that the sequence is not cut among."""
    group = dist.new_group(list(range(cut.num_ranks))) if cut.num_ranks < me.world_size else None
    if me.rank >= cut.num_ranks:
        return None
    random = torch.Generator().manual_seed(0)  # all ranks draw the same
    full = [torch.randn(shape, generator=random).to(me.device) for shape in (*shapes, shapes[0])]
    q, k, v, grad_out = (own_positions(cut, me.rank, x, dim=2) for x in full)
    parts = [x.requires_grad_() for x in (q, k, v)]
    attention = ring_attention if way == "ring" else all_to_all_attention
    with Recorder(me.rank) as forward:
        out = attention(me, q, k, v, cut, group=group)
    with Recorder(me.rank) as backward:
        out.backward(grad_out)
    alone = [x.requires_grad_() for x in full[:3]]
    expected = F.scaled_dot_product_attention(alone[0], alone[1], alone[2], is_causal=True, enable_gqa=True)
    expected.backward(full[3])
    if group is not None:
        dist.destroy_process_group(group)
    return WatchedAttention(
        forward_bytes=_sent(forward),
        backward_bytes=_sent(backward),
        output_off=_off(cut, me.rank, out, expected),
        gradients_off=max(_off(cut, me.rank, x.grad, y.grad) for x, y in zip(parts, alone, strict=True)),
    )


def _sent(recorder: Recorder) -> int:
    return sum(sum(call.sent_bytes.values()) for call in recorder.calls)


def _off(cut: SequenceCut, group_rank: int, part: Tensor | None, full: Tensor | None) -> float:
    """The largest difference of a rank's part (B, H, T_r, K) to the same positions of (B, H, T, K)."""
    assert part is not None
    assert full is not None
    return float((part - own_positions(cut, group_rank, full, dim=2)).abs().max())
