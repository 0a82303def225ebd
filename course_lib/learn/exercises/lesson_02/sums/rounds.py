"""How many messages follow one another: the longest chain in which each is sent after the one before has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from course_lib.cluster import Rank, exchange, recv, send
from course_lib.meter import Call

__all__ = ["Half", "halves_of", "longest_chain", "shared"]

_MOST, _FIELDS = 64, 4  # halves of messages that a rank tells of; what one is told by


@dataclass(frozen=True)
class Half:
    """One half of a message on a rank: its number there, and how many calls it had begun when it waited for it."""

    number: int
    peer: int
    is_recv: bool
    waited_after: int  # -1: never


def halves_of(calls: Sequence[Call]) -> tuple[Half, ...]:
    """The messages among a rank's calls, in the order in which it began them."""
    return tuple(
        Half(one.number, -1 if one.peer is None else one.peer, one.operation == "recv", _waited(one))
        for one in calls
        if one.is_message
    )


def _waited(call: Call) -> int:
    return -1 if call.waited_after is None else call.waited_after


def shared(me: Rank, own: Sequence[Half]) -> dict[int, tuple[Half, ...]]:
    """The halves of every rank, by rank; no more than the first 64 of each. All ranks call it."""
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    rows = torch.full((_MOST, _FIELDS), -2)  # (64, 4)
    for place, one in enumerate(own[:_MOST]):
        rows[place] = torch.tensor([one.number, one.peer, one.is_recv, one.waited_after])
    rooms = {rank: torch.empty_like(rows) for rank in others}
    exchange([*(send(rows, rank) for rank in others), *(recv(room, rank) for rank, room in rooms.items())])
    return {rank: tuple(map(_half, filter(_is_told, told.tolist()))) for rank, told in {me.rank: rows, **rooms}.items()}


def _is_told(row: list[int]) -> bool:
    return row[0] >= 0


def _half(row: list[int]) -> Half:
    number, peer, is_recv, waited_after = row
    return Half(number, peer, bool(is_recv), waited_after)


def longest_chain(halves: Mapping[int, Sequence[Half]]) -> int:
    """The most messages of which each was begun when the one before had come. The k-th from a to b is the k-th that
    b has from a.
    """

    def nth(rank: int, peer: int, is_recv: bool, place: int) -> Half | None:
        fitting = [one for one in halves[rank] if (one.peer, one.is_recv) == (peer, is_recv)]
        return fitting[place] if place < len(fitting) else None

    @cache
    def depth(rank: int, sent: Half) -> int:
        """Of a message that this rank sends."""
        before = 0
        for one in halves[rank]:
            if one.is_recv and 0 <= one.waited_after < sent.number and one.peer in halves:
                place = [other for other in halves[rank] if other.peer == one.peer and other.is_recv].index(one)
                came = nth(one.peer, rank, False, place)
                before = max(before, depth(one.peer, came) if came is not None else 0)
        return before + 1

    return max((depth(rank, one) for rank in halves for one in halves[rank] if not one.is_recv), default=0)
