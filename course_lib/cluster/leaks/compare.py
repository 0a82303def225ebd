"""Leak report of a call: what its ranks have left, compared across them and said in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course_lib.base.text import rank_list
from course_lib.cluster.failures.hang_diagnosis import on_line
from course_lib.cluster.hooks.op_tracker import unwaited_here
from course_lib.cluster.hooks.pending_ops import PendingOp
from course_lib.cluster.leaks.collect import Remains

__all__ = ["LeftOver", "compare", "never_waited_here"]


@dataclass(frozen=True)
class LeftOver:
    """``lines`` for the learner. Ranks that are not ``is_clean`` must meet anew, or be replaced, before the next call.

    ``may_settle``: what is left may end by itself in a moment. ``needs_new_ranks``: to meet anew is not enough.
    """

    lines: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()  # those of the lines that tell of what is in order again
    is_clean: bool = True
    may_settle: bool = False
    needs_new_ranks: bool = False


def compare(remains: Mapping[int, Remains]) -> LeftOver:
    """Judge what the ranks of one call, all of which have returned, report of themselves."""
    first, *others = remains.values()
    if first.is_nothing and all(left == first for left in others):
        return LeftOver()  # as nearly always
    put_back = _grouped({rank: left.put_back for rank, left in remains.items()})
    under_way = _grouped({rank: tuple(map(_under_way, left.collectives)) for rank, left in remains.items()})
    threads = _grouped(
        {rank: tuple(f"left its thread {name!r} running" for name in left.threads) for rank, left in remains.items()}
    )
    rest = [
        *_messages(remains),
        *_grouped({rank: tuple(map(_failed, left.failed)) for rank, left in remains.items()}),
        *([] if under_way else _uneven(remains)),
        *_groups(remains),
    ]
    broken = any(not (left.is_member and left.is_whole) for left in remains.values())
    return LeftOver(
        (*rest, *under_way, *threads, *put_back),
        put_back=tuple(put_back),
        is_clean=not (rest or under_way or threads or broken),
        may_settle=bool(under_way or threads) and not rest,
        needs_new_ranks=bool(threads) or not all(left.is_whole for left in remains.values()),
    )


def never_waited_here() -> tuple[str, ...]:
    """On a rank, in a call: what this rank has begun and nobody has waited for, over by luck or not, in words."""
    return tuple(_unawaited(begun) for begun in unwaited_here())


def _grouped(said: Mapping[int, tuple[str, ...]]) -> list[str]:
    """One line for all ranks of which the same is to be said."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(said):
        for text in said[rank]:
            ranks.setdefault(text, []).append(rank)
    return [f"{rank_list(who)} {text}" for text, who in ranks.items()]


def _messages(remains: Mapping[int, Remains]) -> list[str]:
    """Messages that nobody has waited for, apart from those which have arrived all the same."""
    said: dict[int, tuple[str, ...]] = {}
    for rank, left in remains.items():
        said[rank] = tuple(_unawaited(message) for message in left.messages if not _arrived(message, rank, remains))
    return _grouped(said)


def _arrived(message: PendingOp, rank: int, remains: Mapping[int, Remains]) -> bool:
    """Whether the other end has taken a message that its sender did not wait for."""
    if message.name != "isend" or message.peer is None or message.peer not in remains:
        return False
    channel = (message.group, rank, message.peer, message.tag)
    return remains[message.peer].received.get(channel, 0) >= message.place


def _unawaited(message: PendingOp) -> str:
    return f"started {message.name} #{message.number}{on_line(message)} and never waited for it"


def _under_way(collective: PendingOp) -> str:
    of = "" if collective.group == "0" else f" of the group of {rank_list(collective.ranks)}"
    return f"started {collective.name} #{collective.number}{of}{on_line(collective)}, which never ended"


def _failed(begun: PendingOp) -> str:
    return f"went on after {begun.name} #{begun.number}{on_line(begun)} had failed"


def _uneven(remains: Mapping[int, Remains]) -> list[str]:
    """Groups whose ranks have made different numbers of calls, and still all of them have ended."""
    found = []
    names = {name for left in remains.values() for name in left.counts}
    for name in sorted(names):
        members = next((left.groups[name] for left in remains.values() if name in left.groups), tuple(remains))
        numbers = {rank: remains[rank].counts.get(name, 0) for rank in members if rank in remains}
        if len(set(numbers.values())) > 1:
            of = "" if name == "0" else f" of the group of {rank_list(members)}"
            made = ", ".join(f"rank {rank} {number}" for rank, number in sorted(numbers.items()))
            found.append(f"the ranks made different numbers of collective calls{of}: {made}")
    return found


def _groups(remains: Mapping[int, Remains]) -> list[str]:
    """Groups that were made, or ended, by some of their ranks only."""
    if not all(left.is_member for left in remains.values()):
        return []  # who has left the default group has left all
    found = []
    made = {rank: left.num_made for rank, left in remains.items()}
    if len(set(made.values())) > 1:
        fewest = min(made.values())
        more = [rank for rank, number in made.items() if number > fewest]
        less = [rank for rank, number in made.items() if number == fewest]
        found.append(f"{rank_list(more)} called new_group and {rank_list(less)} did not: every rank must call it")
    for name in sorted({name for left in remains.values() for name in left.groups}):
        members = next(left.groups[name] for left in remains.values() if name in left.groups)
        holders = [rank for rank in remains if name in remains[rank].groups]
        if not found and set(holders) != set(members) & set(remains):
            found.append(f"the group of {rank_list(members)} is there on {rank_list(holders)} only")
    return found
