"""Leak report of a call: what its ranks have left, compared across them and said in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course_lib.base.text import rank_list
from course_lib.cluster.failures.hang_diagnosis import on_line
from course_lib.cluster.hooks.op_tracker import unwaited_here
from course_lib.cluster.hooks.pending_ops import PendingOp
from course_lib.cluster.leaks.collect import RankLeaks

__all__ = ["LeakReport", "compare", "never_waited_here"]


@dataclass(frozen=True)
class LeakReport:
    """``lines`` for the learner. Ranks that are not ``is_clean`` must meet anew, or be replaced, before the next call.

    ``may_settle``: what is left may end by itself in a moment. ``needs_new_ranks``: to meet anew is not enough.
    """

    lines: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()  # those of the lines that tell of what is in order again
    is_clean: bool = True
    may_settle: bool = False
    needs_new_ranks: bool = False


def compare(leaks: Mapping[int, RankLeaks]) -> LeakReport:
    """Judge what the ranks of one call, all of which have returned, report of themselves."""
    first, *others = leaks.values()
    if first.is_nothing and all(one == first for one in others):
        return LeakReport()  # as nearly always
    restored = _grouped({rank: one.restored for rank, one in leaks.items()})
    pending = _grouped({rank: tuple(map(_pending, one.collectives)) for rank, one in leaks.items()})
    threads = _grouped(
        {rank: tuple(f"left its thread {name!r} running" for name in one.threads) for rank, one in leaks.items()}
    )
    rest = [
        *_messages(leaks),
        *_grouped({rank: tuple(map(_failed, one.failed)) for rank, one in leaks.items()}),
        *([] if pending else _uneven(leaks)),
        *_groups(leaks),
    ]
    broken = any(not (one.is_member and one.is_restored) for one in leaks.values())
    return LeakReport(
        (*rest, *pending, *threads, *restored),
        restored=tuple(restored),
        is_clean=not (rest or pending or threads or broken),
        may_settle=bool(pending or threads) and not rest,
        needs_new_ranks=bool(threads) or not all(one.is_restored for one in leaks.values()),
    )


def never_waited_here() -> tuple[str, ...]:
    """On a rank, in a call: what this rank has begun and nobody has waited for, over by luck or not, in words."""
    return tuple(_unawaited(op) for op in unwaited_here())


def _grouped(lines: Mapping[int, tuple[str, ...]]) -> list[str]:
    """One line for all ranks of which the same is to be said."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(lines):
        for text in lines[rank]:
            ranks.setdefault(text, []).append(rank)
    return [f"{rank_list(who)} {text}" for text, who in ranks.items()]


def _messages(leaks: Mapping[int, RankLeaks]) -> list[str]:
    """Messages that nobody has waited for, apart from those which have arrived all the same."""
    lines: dict[int, tuple[str, ...]] = {}
    for rank, one in leaks.items():
        lines[rank] = tuple(_unawaited(message) for message in one.messages if not _arrived(message, rank, leaks))
    return _grouped(lines)


def _arrived(message: PendingOp, rank: int, leaks: Mapping[int, RankLeaks]) -> bool:
    """Whether the other end has taken a message that its sender did not wait for."""
    if message.name != "isend" or message.peer is None or message.peer not in leaks:
        return False
    channel = (message.group, rank, message.peer, message.tag)
    return leaks[message.peer].received.get(channel, 0) >= message.seq


def _unawaited(message: PendingOp) -> str:
    return f"started {message.name} #{message.number}{on_line(message)} and never waited for it"


def _pending(collective: PendingOp) -> str:
    of = "" if collective.group == "0" else f" of the group of {rank_list(collective.ranks)}"
    return f"started {collective.name} #{collective.number}{of}{on_line(collective)}, which never ended"


def _failed(op: PendingOp) -> str:
    return f"went on after {op.name} #{op.number}{on_line(op)} had failed"


def _uneven(leaks: Mapping[int, RankLeaks]) -> list[str]:
    """Groups whose ranks have made different numbers of calls, and still all of them have ended."""
    found = []
    names = {name for one in leaks.values() for name in one.counts}
    for name in sorted(names):
        members = next((one.groups[name] for one in leaks.values() if name in one.groups), tuple(leaks))
        numbers = {rank: leaks[rank].counts.get(name, 0) for rank in members if rank in leaks}
        if len(set(numbers.values())) > 1:
            of = "" if name == "0" else f" of the group of {rank_list(members)}"
            made = ", ".join(f"rank {rank} {number}" for rank, number in sorted(numbers.items()))
            found.append(f"the ranks made different numbers of collective calls{of}: {made}")
    return found


def _groups(leaks: Mapping[int, RankLeaks]) -> list[str]:
    """Groups that were made, or ended, by some of their ranks only."""
    if not all(one.is_member for one in leaks.values()):
        return []  # who has left the default group has left all
    found = []
    made = {rank: one.num_made for rank, one in leaks.items()}
    if len(set(made.values())) > 1:
        fewest = min(made.values())
        more = [rank for rank, number in made.items() if number > fewest]
        less = [rank for rank, number in made.items() if number == fewest]
        found.append(f"{rank_list(more)} called new_group and {rank_list(less)} did not: every rank must call it")
    for name in sorted({name for one in leaks.values() for name in one.groups}):
        members = next(one.groups[name] for one in leaks.values() if name in one.groups)
        holders = [rank for rank in leaks if name in leaks[rank].groups]
        if not found and set(holders) != set(members) & set(leaks):
            found.append(f"the group of {rank_list(members)} is there on {rank_list(holders)} only")
    return found
