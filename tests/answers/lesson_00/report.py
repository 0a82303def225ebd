"""00.report: every rank meets, and rank 0 alone reports."""

from __future__ import annotations

import torch.distributed as dist
from answer_table import Row


def all_meet(me, loss):
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None


def nobody_waits(me, loss):
    dist.all_reduce(loss, async_op=True)
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None


def by_messages_to_rank_0(me, loss):
    if me.rank:
        dist.send(loss, 0)
        return None
    total = loss.clone()
    other = loss.clone()
    for rank in range(1, me.world_size):
        dist.recv(other, rank)
        total += other
    return f"mean loss {total / me.world_size:.2f}"


ROWS = [
    Row(answer=all_meet, verdict="passed", why="the definition"),
    Row(answer=by_messages_to_rank_0, verdict="passed", why="every rank meets rank 0, one after the other"),
    Row(answer=nobody_waits, verdict="not yet", words=("never waited for it",), why="the sum may come later"),
]
