"""Reduce-scatter, all-gather and all-reduce around a ring: each rank sends to the next and receives from the last.

The tensor is cut into one part for each rank. With 4 ranks, this is what rank 1 does in a reduce-scatter::

    step 0    sends its part 0      receives a part 3, adds its own to it
    step 1    sends that sum        receives a part 2 (a sum of two ranks), adds its own
    step 2    sends that sum        receives a part 1 (a sum of three ranks), adds its own: part 1 is complete

Every rank does so at the same time, one part further on, and no part is sent twice by the same rank. In an all-gather
the finished parts go around once in the same way, without the adding. An all-reduce is the one after the other:
2 (n - 1) messages of 1/n of the tensor by every rank, which is the least that any algorithm can send, and all links
of the ring are busy all the time. Source: Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters
of workstations* (2009).

A long part travels in segments of at most ``segment_bytes``: while one is being added, the next is on its way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist

from course_lib.base.checks import at_least
from course_lib.cluster.base.point_to_point import recv, send, start
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.direct import room_for_all
from course_lib.parallel.collectives.members import Add, Members, adder, checked_out, in_one_piece, rows

__all__ = [
    "SEGMENT_BYTES",
    "all_gather",
    "gather_around",
    "reduce_around",
    "reduce_scatter",
    "ring_all_reduce",
]

SEGMENT_BYTES = 8 * 2**20  # long enough that latency does not count, short enough to overlap


def reduce_scatter(
    me: Rank,
    tensor: torch.Tensor,
    *,
    op: str = "sum",
    sizes: Sequence[int] | None = None,
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    segment_bytes: int = SEGMENT_BYTES,
) -> torch.Tensor:
    """The sum of all tensors, of which each rank gets some rows: the first ranks the first rows.

    tensor: (N, ...), the same shape on every rank. Returns (rows of this rank, ...). ``sizes``: rows for each rank, by
    default as even as can be. Sent by each rank: n - 1 messages, (n - 1)/n of the tensor.
    Backward, of a sum: ``all_gather`` of the gradients.
    """
    members, add = Members.of(me, group), adder(op, tensor.dtype)
    tensor = in_one_piece(tensor)
    parts = tensor.split(rows(tensor, sizes, members.count))
    result = checked_out(out, parts[members.group_rank].shape, tensor)
    if members.count == 1:
        return result.copy_(parts[0])
    mine = [part.reshape(-1) for part in parts]
    buffers = [torch.empty_like(max(mine, key=len)) for _ in range(2)]  # unfinished sums take turns in them
    totals = {}
    for step in range(members.count - 2):
        recv_index = (members.group_rank - 2 - step) % members.count
        totals[recv_index] = buffers[step % 2][: len(mine[recv_index])]
    totals[members.group_rank] = result.view(-1)
    reduce_around(members, mine, totals, add, segment_bytes)
    return result


def all_gather(
    me: Rank,
    tensor: torch.Tensor,
    *,
    sizes: Sequence[int] | None = None,
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    segment_bytes: int = SEGMENT_BYTES,
) -> torch.Tensor:
    """Every rank gets the rows of all ranks, below each other in the order of the ranks.

    tensor: (rows of this rank, ...). Returns (sum of the rows, ...). ``sizes``: rows of each rank, needed where they
    differ, by everybody. Sent by each rank: n - 1 messages, (n - 1)/n of the result when the parts are equal.
    Backward: ``reduce_scatter`` of the gradients.
    """
    members = Members.of(me, group)
    tensor = in_one_piece(tensor)
    result, parts = room_for_all(members, tensor, sizes, out)
    parts[members.group_rank].copy_(tensor)
    gather_around(members, [part.reshape(-1) for part in parts], segment_bytes)
    return result


def ring_all_reduce(
    members: Members, tensor: torch.Tensor, out: torch.Tensor, add: Add, segment_bytes: int = SEGMENT_BYTES
) -> None:
    """Put the sum of all tensors into ``out``, which may be ``tensor``: a reduce-scatter and an all-gather."""
    if members.count == 1:
        out.copy_(tensor)
        return
    mine, totals = (each.view(-1).tensor_split(members.count) for each in (tensor, out))
    reduce_around(members, mine, dict(enumerate(totals)), add, segment_bytes)
    gather_around(members, totals, segment_bytes)


def reduce_around(
    members: Members,
    mine: Sequence[torch.Tensor],
    totals: Mapping[int, torch.Tensor],
    add: Add,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Add up part k of all ranks in ``totals[k]``: complete in the end is part ``group_rank``.

    ``mine[k]`` is this rank's part k; it may be the same memory as ``totals[k]``.
    """
    n, group_rank = members.count, members.group_rank
    buffers = _buffers(mine, segment_bytes) if mine[group_rank].data_ptr() == totals[group_rank].data_ptr() else ()
    for step in range(n - 1):
        send_index, recv_index = (group_rank - 1 - step) % n, (group_rank - 2 - step) % n
        give = mine[send_index] if step == 0 else totals[send_index]
        for take, here in _turn(members, give, totals[recv_index], segment_bytes, buffers):
            add(take, mine[recv_index][here], out=totals[recv_index][here])


def gather_around(members: Members, parts: Sequence[torch.Tensor], segment_bytes: int = SEGMENT_BYTES) -> None:
    """Fill in the parts of all other ranks; this rank's own part is there."""
    n, group_rank = members.count, members.group_rank
    for step in range(n - 1):
        send_index, recv_index = (group_rank - step) % n, (group_rank - 1 - step) % n
        for _ in _turn(members, parts[send_index], parts[recv_index], segment_bytes):
            pass  # it has arrived where it belongs


def _turn(
    members: Members,
    give: torch.Tensor,
    into: torch.Tensor,
    segment_bytes: int,
    buffers: Sequence[torch.Tensor] = (),
) -> Iterator[tuple[torch.Tensor, slice]]:
    """Send ``give`` to the next rank while as much as ``into`` holds comes from the one before, both flat.

    Yields each segment as it arrives, and where in ``into`` it belongs, with the next segment already on its way. It
    lies in ``into`` itself, or, where that must be spared, in one of two ``buffers``.
    """
    at_least(1, segment_bytes=segment_bytes)
    length = max(1, segment_bytes // give.element_size())
    underway: deque[tuple[Callable[[], None], torch.Tensor, slice]] = deque()
    for number, begin in enumerate(range(0, max(len(give), len(into)), length)):
        here = slice(begin, begin + length)
        take = buffers[number % 2][: len(into[here])] if buffers else into[here]
        messages = [send(give[here], members.at(members.group_rank + 1))] if len(give[here]) else []
        messages += [recv(take, members.at(members.group_rank - 1))] if len(take) else []
        underway.append((start(messages, group=members.group), take, here))
        if len(underway) == 2:
            yield _arrived(*underway.popleft())
    if underway:
        yield _arrived(*underway.popleft())


def _arrived(wait: Callable[[], None], take: torch.Tensor, here: slice) -> tuple[torch.Tensor, slice]:
    wait()
    return take, here


def _buffers(parts: Sequence[torch.Tensor], segment_bytes: int) -> list[torch.Tensor]:
    """Two buffers, each large enough for any segment of these parts."""
    longest = max(parts, key=lambda part: len(part))
    return [torch.empty_like(longest[: max(1, segment_bytes // longest.element_size())]) for _ in range(2)]
