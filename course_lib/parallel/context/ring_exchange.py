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

__all__ = ["SumsAround", "blocks_around"]


def blocks_around(members: Members, block: torch.Tensor, sizes: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
    """Every rank's block in turn, with the group rank it comes from: first this rank's own, last the next rank's.

    block: (..., size, K), with ``sizes[group_rank]`` rows along the dim before the last. While the caller computes with
    a block, it is on its way to the next place, and the one before it arrives. Ask for the next when done with it, and
    let it go (``del``) before: then there are never more than two. Sent by each rank: n - 1 messages, all blocks but
    that of the next place.
    """
    for step in range(members.count - 1):
        owner = (members.group_rank - step) % members.count
        incoming = _room(block, sizes[(owner - 1) % members.count])
        wait = _pass_on(members, block, incoming)
        yield owner, block
        wait()
        block = incoming
        del incoming, wait
    yield (members.group_rank + 1) % members.count, block


class SumsAround:
    """For the block of each group rank the sum of what all ranks add to it, complete in the end on that rank.

    ``add`` is called once for every place, in the order of ``blocks_around``; what others have added to a block arrives
    while this rank computes its own part. A rank's part for its own block stays at home, and is added last.
    Sent by each rank: n - 1 messages, all sums but its own.
    """

    def __init__(self, members: Members, sizes: Sequence[int]) -> None:
        self._members, self._sizes = members, sizes
        self._wait: Callable[[], None] = lambda: None
        self._own: torch.Tensor
        self._incoming: torch.Tensor | None = None  # the sum that is arriving, for the block of the next ``add``

    def add(self, owner: int, part: torch.Tensor) -> None:
        """Add ``part`` (..., size, K), which becomes the sum, and send it on."""
        if owner == self._members.group_rank:
            self._own = part
            return
        part = self._added(part)
        self._incoming = _room(part, self._sizes[(owner - 1) % self._members.count])
        self._wait = _pass_on(self._members, part, self._incoming)

    def at_home(self) -> torch.Tensor:
        """The sum for this rank's own block, when all have been added to."""
        return self._added(self._own)

    def _added(self, part: torch.Tensor) -> torch.Tensor:
        """``part`` with what has come from the rank before, if anything has."""
        self._wait()
        return part if self._incoming is None else part.add_(self._incoming)


def _room(like: torch.Tensor, size: int) -> torch.Tensor:
    return like.new_empty(*like.shape[:-2], size, like.size(-1))


def _pass_on(members: Members, give: torch.Tensor, take: torch.Tensor) -> Callable[[], None]:
    """Start sending to the next rank and receiving from the one before; of an empty block there is no message."""
    messages = [send(give, members.at(members.group_rank + 1))] if give.numel() else []
    messages += [recv(take, members.at(members.group_rank - 1))] if take.numel() else []
    return start(messages, group=members.group)
