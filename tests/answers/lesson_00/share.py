"""00.share: which items belong to a rank."""

from __future__ import annotations

from answer_table import Row


def whole_division(num_items, rank, world_size):
    per, extra = divmod(num_items, world_size)
    start = rank * per + min(rank, extra)
    return range(start, start + per + (rank < extra))


def chunks_rounded_up(num_items, rank, world_size):
    size = -(-num_items // world_size)
    return range(min(rank * size, num_items), min((rank + 1) * size, num_items))


_at = 0


def counts_on_the_order_of_calls(num_items, rank, world_size):
    global _at
    if rank == 0:
        _at = 0
    count = num_items // world_size + (rank < num_items % world_size)
    start, _at = _at, _at + count
    return range(start, start + count)


ROWS = [
    Row(answer=whole_division, verdict="passed", why="the definition"),
    Row(answer=chunks_rounded_up, verdict="not yet", why="five items on four ranks: the last one has none"),
    Row(
        answer=counts_on_the_order_of_calls,
        verdict="not yet",
        why="each rank is a process of its own, and rank 1 never sees the call of rank 0: all begin at 0",
    ),
]
