"""04.drift: which parameters are no longer the same on all ranks."""

from __future__ import annotations

import hashlib
import zlib

import torch
import torch.distributed as dist
from answer_table import Row


def hashes_of_sha1(me, model):
    mine = [hashlib.sha1(p.detach().cpu().numpy().tobytes()).hexdigest() for p in model.parameters()]
    rows = [None] * me.world_size
    dist.all_gather_object(rows, mine)
    return [n for i, (n, _) in enumerate(model.named_parameters()) if len({row[i] for row in rows}) > 1]


def nobody_waits(me, model):
    mine = torch.tensor([zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()])
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine, async_op=True)
    table = torch.stack(rows)
    return [n for i, (n, _) in enumerate(model.named_parameters()) if len(set(table[:, i].tolist())) > 1]


ROWS = [
    Row(answer=hashes_of_sha1, verdict="passed", why="the models here are in float32 and float64, as in the lesson"),
    Row(
        answer=nobody_waits,
        verdict="not yet",
        words=("never waited for it",),
        unsaid=("some of them learn less", "All ranks need all hashes"),
        why="it gathers all hashes on all ranks, and reads them before they are there",
    ),
]
