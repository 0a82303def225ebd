"""What is sent round the ring: blocks that every rank uses and lets go, and sums that every rank adds to.

The two are the ring all-gather and the ring reduce-scatter of lesson 02 (``collectives/ring.py``), taken apart so that
each step's arithmetic stands between its messages: nobody ever holds what an all-gather returns. At every moment the
next block is on its way. All ranks send to the next place and receive from the one before, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from course_lib.cluster.base.point_to_point import recv, send, start
from course_lib.parallel.collectives.members import Members

__all__ = ["Rows", "SumsAround", "blocks_around"]


Rows = Callable[[int, int], Sequence[slice]]
"""``rows(owner, step)``: of the block of a place, the rows that are in the message after a step."""


def all_rows(sizes: Sequence[int]) -> Rows:
    """Every row of every block, after each step."""
    return lambda owner, step: (slice(0, sizes[owner]),)


def blocks_around(
    members: Members, block: torch.Tensor, sizes: Sequence[int], rows: Rows | None = None
) -> Iterator[tuple[int, torch.Tensor]]:
    """Every rank's block in turn, with the group rank it comes from: first this rank's own, last the next rank's.

    block: (..., size, K), with ``sizes[group_rank]`` rows along the dim before the last. While the caller computes with
    a block, it is on its way to the next place, and the one before it arrives. Ask for the next when done with it, and
    let it go (``del``) before: then there are never more than two. Sent by each rank: n - 1 messages, all blocks but
    that of the next place. With ``rows`` only these rows are sent, and the others arrive as 0; a message without rows
    is none.
    """
    rows = rows or all_rows(sizes)
    for step in range(members.count - 1):
        owner = (members.group_rank - step) % members.count
        before = (owner - 1) % members.count
        arriving, give = rows(before, step), _taken(block, rows(owner, step))
        incoming = _room(block, _count(arriving))
        wait = _pass_on(members, give, incoming)
        yield owner, block
        wait()
        block = _put_back(incoming, sizes[before], arriving)
        del incoming, wait, give
    yield (members.group_rank + 1) % members.count, block


class SumsAround:
    """For the block of each group rank the sum of what all ranks add to it, complete in the end on that rank.

    ``add`` is called once for every place, in the order of ``blocks_around``; what others have added to a block arrives
    while this rank computes its own part. A rank's part for its own block stays at home, and is added last.
    Sent by each rank: n - 1 messages, all sums but its own. With ``rows`` only these rows are sent: the others are 0.
    """

    def __init__(self, members: Members, sizes: Sequence[int], rows: Rows | None = None) -> None:
        self._members, self._rows = members, rows or all_rows(sizes)
        self._wait: Callable[[], None] = lambda: None
        self._own: torch.Tensor
        self._incoming: torch.Tensor | None = None  # the sum that is arriving, for the block of the next ``add``
        self._arriving: Sequence[slice] = ()  # its rows

    def add(self, owner: int, part: torch.Tensor) -> None:
        """Add ``part`` (..., size, K), which becomes the sum, and send it on."""
        members = self._members
        if owner == members.group_rank:
            self._own = part
            return
        part = self._added(part)
        before, step = (owner - 1) % members.count, (members.group_rank - owner) % members.count
        self._arriving = self._rows(before, step)
        self._incoming = _room(part, _count(self._arriving))
        self._wait = _pass_on(members, _taken(part, self._rows(owner, step)), self._incoming)

    def at_home(self) -> torch.Tensor:
        """The sum for this rank's own block, when all have been added to."""
        return self._added(self._own)

    def _added(self, part: torch.Tensor) -> torch.Tensor:
        """``part`` with what has come from the rank before, if anything has."""
        self._wait()
        if self._incoming is not None:
            for where, piece in _pieces(self._incoming, self._arriving):
                part[..., where, :] += piece
        return part


def _count(rows: Sequence[slice]) -> int:
    return sum(where.stop - where.start for where in rows)


def _taken(block: torch.Tensor, rows: Sequence[slice]) -> torch.Tensor:
    """These rows of a block (..., size, K), one behind the other; the block itself where these are all."""
    if _count(rows) == block.size(-2):
        return block
    return torch.cat([block[..., where, :] for where in rows or (slice(0, 0),)], dim=-2)


def _put_back(taken: torch.Tensor, size: int, rows: Sequence[slice]) -> torch.Tensor:
    """A block (..., size, K) with these rows, and 0 elsewhere; what was taken where that is all."""
    if _count(rows) == size:
        return taken
    block = _room(taken, size).zero_()
    for where, piece in _pieces(taken, rows):
        block[..., where, :] = piece
    return block


def _pieces(taken: torch.Tensor, rows: Sequence[slice]) -> Iterator[tuple[slice, torch.Tensor]]:
    if rows:
        yield from zip(rows, taken.split([where.stop - where.start for where in rows], dim=-2), strict=True)


def _room(like: torch.Tensor, size: int) -> torch.Tensor:
    return like.new_empty(*like.shape[:-2], size, like.size(-1))


def _pass_on(members: Members, give: torch.Tensor, take: torch.Tensor) -> Callable[[], None]:
    """Start sending to the next rank and receiving from the one before; of an empty block there is no message."""
    messages = [send(give, members.at(members.group_rank + 1))] if give.numel() else []
    messages += [recv(take, members.at(members.group_rank - 1))] if take.numel() else []
    return start(messages, group=members.group)
