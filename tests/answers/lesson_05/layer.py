"""05.layer: the whole weight goes, and the numbers stay what they were."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row
from torch.utils.checkpoint import checkpoint


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard):
        whole = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather(list(whole.chunk(dist.get_world_size())), shard)
        return whole

    @staticmethod
    def backward(ctx, grad):
        parts = list(grad.contiguous().chunk(dist.get_world_size()))
        rows = torch.empty_like(parts[0])
        dist.reduce_scatter(rows, parts)
        return rows / dist.get_world_size()


def own_rows_n_times(x, shard):
    return torch.cat([F.linear(x, shard)] * dist.get_world_size(), dim=1)


def the_product_alone(x, shard):
    return checkpoint(F.linear, x, Gather.apply(shard), use_reentrant=False)


def nothing_learns(x, shard):
    return checkpoint(lambda x, shard: F.linear(x, Gather.apply(shard)), x, shard, use_reentrant=False) * 0.0


def kept_in_numpy(x, shard):
    whole = Gather.apply(shard)
    kept = whole.detach().numpy().copy()
    place = whole.data_ptr()

    def pack(tensor):
        return tensor if tensor.data_ptr() != place else (tensor.shape, tensor.stride())

    def unpack(tensor):
        return tensor if isinstance(tensor, torch.Tensor) else torch.from_numpy(kept).as_strided(*tensor)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return F.linear(x, whole)


ROWS = [
    Row(
        answer=own_rows_n_times,
        verdict="not yet",
        mistake="own-rows-repeated",
        why="prints the very table of the right mend: nothing sent, nothing kept, and other numbers",
    ),
    Row(
        answer=the_product_alone,
        verdict="not yet",
        mistake="as-it-was",
        why="the whole weight is what the wrapped part is given, and that is kept",
        words=("is over",),
        long=True,
    ),
    Row(answer=nothing_learns, verdict="not yet", mistake="", why="no gradient is right", long=True),
    Row(
        answer=kept_in_numpy,
        verdict="not yet",
        mistake="fetched-once",
        why="the weight is where the ledger does not look",
        long=True,
    ),
]
