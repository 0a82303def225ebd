"""Deadlock detection: which waiting ranks can never be released, worked out from the status of each rank.

A rank that runs may still do anything. A rank that has returned does nothing more. A rank that waits goes on when those
it waits for have begun their part. So hope spreads from the ranks that run to those that wait for them, and on; whoever
it never reaches waits for ever. That is sound whenever the ranks were asked: who was seen waiting for a part that was
not begun at a later moment has waited all the time between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.cluster.failures.rank_status import Accounts, Operation, RankStatus
from course_lib.cluster.hooks.pending_ops import PendingOp

__all__ = ["Wait", "deadlocked_ranks", "differing", "wait_of"]

_SAME_EVERYWHERE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")
_GONE = ("returned", "absent")
_LINE_BLOCKED_S = 1.0  # a message let go before it had come blocks its line for ever; after it had, not at all


@dataclass(frozen=True)
class Wait:
    """What a rank waits for. ``missing``: who has not begun its part; any one of them will do where ``any_one``."""

    what: object  # tells two looks apart
    missing: frozenset[int]
    any_one: bool = False
    is_spoiled: bool = False  # nobody's part is missing, and it will not end all the same
    is_sure: bool = True  # False: by the stack alone; the main thread may be computing
    certain_after_s: float = 0.0  # how long it must be seen unchanged


def deadlocked_ranks(statuses: Mapping[int, RankStatus]) -> dict[int, Wait]:
    """The ranks that can never go on, with what they wait for."""
    waits = {rank: wait for rank, status in statuses.items() if (wait := wait_of(rank, statuses)) is not None}
    alive = {rank for rank, status in statuses.items() if status.state not in _GONE and rank not in waits}
    gone = {rank for rank, status in statuses.items() if status.state in _GONE}
    unsure = {rank for rank, wait in waits.items() if not wait.is_sure and not wait.missing & gone}
    alive |= unsure
    while True:
        reached = {rank for rank, wait in waits.items() if rank not in alive and _can_be_released(wait, alive)}
        if not reached:
            return {rank: wait for rank, wait in waits.items() if rank not in alive}
        alive |= reached


def _can_be_released(wait: Wait, alive: set[int]) -> bool:
    if wait.is_spoiled:
        return False
    if wait.any_one:
        return bool(wait.missing & alive)
    return wait.missing <= alive


def wait_of(rank: int, statuses: Mapping[int, RankStatus]) -> Wait | None:
    """What ``rank`` waits for; None where it does not wait, or nobody knows for what."""
    status = statuses[rank]
    if status.state != "running" or status.accounts is None or status.is_on_nccl:
        return None
    if status.message is not None:
        return _for_message(rank, status.message, statuses)
    if status.rendezvous:
        return _for_rendezvous(rank, status.rendezvous, statuses)
    pending = status.pending
    if pending is None or pending.is_message or not status.is_blocked:
        return None
    return _for_collective(pending, status, statuses)


def _for_message(rank: int, message: PendingOp, statuses: Mapping[int, RankStatus]) -> Wait | None:
    what = (message.name, message.group, message.peer, message.tag, message.number)
    if message.peer is None:
        others = frozenset(other for other in message.ranks if other != rank)
        key = (message.group, rank, message.tag)
        sent = sum(
            n for other in statuses for c, n in _accounts(statuses, other).sent.items() if (c[0], c[2], c[3]) == key
        )
        taken = sum(n for c, n in _accounts(statuses, rank).posted.items() if (c[0], c[2], c[3]) == key)
        wait = Wait(what, frozenset() if sent > taken else others, any_one=sent <= taken)
        return _with_lost_messages(wait, message.ranks, statuses)
    theirs = _accounts(statuses, message.peer)
    if message.name == "irecv":
        channel = (message.group, message.peer, rank, message.tag)
        has_begun = theirs.sent.get(channel, 0) >= message.seq
    else:
        channel = (message.group, rank, message.peer, message.tag)
        from_anyone = theirs.posted_any.get((message.group, message.tag), 0)
        has_begun = theirs.posted.get(channel, 0) + from_anyone >= message.seq
    missing = frozenset() if has_begun else frozenset({message.peer})
    return _with_lost_messages(Wait(what, missing), (rank, message.peer), statuses)


def _channel(message: PendingOp, owner: int) -> tuple[str, int, int, int]:
    ends = (owner, message.peer or 0) if message.name == "isend" else (message.peer or 0, owner)
    return (message.group, *ends, message.tag)


def _for_rendezvous(rank: int, rendezvous: str, statuses: Mapping[int, RankStatus]) -> Wait | None:
    me = _accounts(statuses, rank)
    others = [other for other in statuses if other != rank]
    if rendezvous == "new_group" and me.made:
        name, members = list(me.made.items())[-1]
        theirs = {other: _accounts(statuses, other).made.get(name) for other in others if other in members}
        missing = frozenset(other for other, made in theirs.items() if made is None)
        is_another = any(made is not None and made != members for made in theirs.values())
        return Wait((rendezvous, name), missing, is_spoiled=is_another)
    if rendezvous == "monitored_barrier" and len(me.groups) <= 1:  # else nobody tells of which group it is
        return Wait((rendezvous,), frozenset(other for other in others if statuses[other].rendezvous != rendezvous))
    return None


def _for_collective(pending: Operation, status: RankStatus, statuses: Mapping[int, RankStatus]) -> Wait:
    accounts = status.accounts or Accounts()
    members = accounts.groups.get(pending.group, tuple(statuses))
    missing = frozenset(r for r in members if r in statuses and _count(statuses[r], pending.group) < pending.number)
    is_spoiled = not missing and bool(differing(pending, members, statuses))
    is_sure = status.is_in_wait or status.is_asleep
    wait = Wait((pending.group, pending.number), missing, is_spoiled=is_spoiled, is_sure=is_sure)
    return _with_lost_messages(wait, members, statuses)


def differing(
    pending: Operation, members: tuple[int, ...], statuses: Mapping[int, RankStatus]
) -> tuple[str, list[str]] | None:
    """How the members' calls of one number differ: ("operation", ["all_reduce", "broadcast"]); None where alike."""
    calls = [
        operation
        for rank in members
        if rank in statuses
        for operation in _recent(statuses[rank])
        if (operation.group, operation.number) == (pending.group, pending.number)
    ]
    names = sorted({call.name for call in calls})
    if len(names) > 1:
        return "operation", names
    if not any(name in names for name in _SAME_EVERYWHERE):
        return None  # roots and others hand in different things
    dtypes = sorted({call.dtypes[0] for call in calls if call.dtypes})
    if len(dtypes) > 1:
        return "dtype", dtypes
    shapes = sorted({" x ".join(map(str, call.shapes[0])) or "one number" for call in calls if call.shapes})
    if len(shapes) > 1 and "all_to_all" not in names:
        return "shape", shapes
    return None


def _with_lost_messages(wait: Wait, members: tuple[int, ...], statuses: Mapping[int, RankStatus]) -> Wait:
    """The wait of one for whom nobody is missing, while a message between members was let go in flight."""
    if wait.missing or wait.is_spoiled or not _has_lost_message(members, statuses):
        return wait
    return replace(wait, is_spoiled=True, certain_after_s=_LINE_BLOCKED_S)


def _has_lost_message(members: tuple[int, ...], statuses: Mapping[int, RankStatus]) -> bool:
    """Whether a member has let go a message whose other half another member has begun and not ended."""
    return any(
        message.peer in members and _other_half_is_open(message, rank, statuses)
        for rank in members
        if rank in statuses
        for message in _accounts(statuses, rank).dropped
    )


def _other_half_is_open(message: PendingOp, owner: int, statuses: Mapping[int, RankStatus]) -> bool:
    if message.peer is None:
        return False
    channel, other = _channel(message, owner), _accounts(statuses, message.peer)
    if message.name == "irecv":
        return other.sent.get(channel, 0) >= message.seq
    return other.posted.get(channel, 0) >= message.seq > other.received.get(channel, 0)


def _recent(status: RankStatus) -> tuple[Operation, ...]:
    own = (status.operation,) if status.operation is not None else ()
    return (*own, *(status.accounts.recent if status.accounts else ()))


def _count(status: RankStatus, group: str) -> int:
    if status.accounts is not None:
        return status.accounts.counts.get(group, 0)
    return (status.num_collectives or 0) if status.num_collectives is not None and group == "0" else 1 << 60


def _accounts(statuses: Mapping[int, RankStatus], rank: int) -> Accounts:
    return (statuses[rank].accounts if rank in statuses else None) or Accounts()
