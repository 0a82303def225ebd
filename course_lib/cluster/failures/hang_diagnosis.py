"""Diagnosis of a hang, in sentences: who never came, who waits for whom, and where calls differ."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.base.text import rank_list
from course_lib.cluster.base.failure import file_of
from course_lib.cluster.failures.deadlock import Wait, deadlocked_ranks, differing
from course_lib.cluster.failures.rank_status import Accounts, Operation, RankStatus
from course_lib.cluster.hooks.pending_ops import PendingOp

__all__ = ["let_go", "members_of", "never_called", "numbered", "on_line", "payload", "reasons"]


def reasons(statuses: Mapping[int, RankStatus]) -> list[str]:
    """What keeps ranks from going on; empty where they might."""
    waits = dict(sorted(deadlocked_ranks(statuses).items()))  # sentences in rank order, whoever was asked first
    found = _dropped(statuses)
    found += _missing_ranks(statuses)
    found += [_other_end(statuses[rank], statuses) for rank, wait in waits.items() if wait.missing]
    found += [_rendezvous(statuses[rank], wait, statuses) for rank, wait in waits.items() if statuses[rank].rendezvous]
    found += _circle(waits)
    return list(dict.fromkeys(sentence for sentence in found if sentence))


def never_called(statuses: Mapping[int, RankStatus]) -> set[int]:
    """The ranks that have not made a call of ``torch.distributed`` in which others wait for them."""
    found = {rank for wanted in _wanted(statuses) for rank in _absent(wanted, statuses)}
    for rank, wait in deadlocked_ranks(statuses).items():
        if statuses[rank].rendezvous and wait.missing and not _are_in_other_groups(statuses[rank], wait, statuses):
            found |= wait.missing
    return found


def _missing_ranks(statuses: Mapping[int, RankStatus]) -> list[str]:
    """For each group that ranks wait in: who has not made the call; or how their calls differ."""
    return [_missing(wanted, statuses) for wanted in _wanted(statuses)]


def _wanted(statuses: Mapping[int, RankStatus]) -> list[Operation]:
    """The newest collective of each group that ranks wait in."""
    pending: dict[str, Operation] = {}
    for status in statuses.values():
        operation = status.pending
        if operation is not None and not operation.is_message:
            known = pending.setdefault(operation.group, operation)
            pending[operation.group] = max(known, operation, key=lambda one: one.number)
    return list(pending.values())


def _absent(wanted: Operation, statuses: Mapping[int, RankStatus]) -> list[int]:
    return [
        rank
        for rank in _members(wanted.group, statuses)
        if rank in statuses and (count := _count(statuses[rank], wanted.group)) is not None and count < wanted.number
    ]


def _missing(wanted: Operation, statuses: Mapping[int, RankStatus]) -> str:
    members = _members(wanted.group, statuses)
    if absent := _absent(wanted, statuses):
        return f"{rank_list(absent).capitalize()} never called {numbered(wanted, members)}."
    difference = differing(wanted, members, statuses)
    if difference is None:
        return ""
    what, values = difference
    return f"Call #{wanted.number} does not have the same {what} on every rank: {', '.join(values)}."


def _count(status: RankStatus, group: str) -> int | None:
    if status.accounts is not None:
        return status.accounts.counts.get(group, 0)
    return status.num_collectives if group == "0" else None


def _members(group: str, statuses: Mapping[int, RankStatus]) -> tuple[int, ...]:
    for status in statuses.values():
        known = (status.accounts or Accounts()).groups.get(group)
        if known:
            return known
    return tuple(statuses)


def _other_end(status: RankStatus, statuses: Mapping[int, RankStatus]) -> str:
    """Rank 1 returned and never sent to rank 0."""
    message = status.message
    if message is None:
        return ""
    if message.peer is None:
        return f"No rank can send to rank {status.rank} any more."
    other = statuses.get(message.peer)
    if other is None or other.state not in ("returned", "absent"):
        return ""
    deed = "sent this message to" if message.name == "irecv" else "received this message from"
    if other.state == "absent":
        return f"Rank {message.peer} does not take part, so it never {deed} rank {status.rank}."
    return f"Rank {message.peer} returned and never {deed} rank {status.rank}."


def _rendezvous(status: RankStatus, wait: Wait, statuses: Mapping[int, RankStatus]) -> str:
    if not wait.missing:
        return (
            f"Rank {status.rank} makes a group by new_group, and other ranks make another one: all must make the same."
        )
    absent = sorted(wait.missing)
    if _are_in_other_groups(status, wait, statuses):
        numbers = {rank: _num_local_groups(statuses[rank]) for rank in sorted((status.rank, *absent))}
        if len(set(numbers.values())) > 1:  # from torch 2.14 on
            more = [rank for rank, number in numbers.items() if number == max(numbers.values())]
            return (
                f"{rank_list(more).capitalize()} asked for a group with use_local_synchronization=True. PyTorch "
                "counts such groups on their members alone and names groups by that count, so this one has two names."
            )
        who, them = ("stands", "it") if len(absent) == 1 else ("stand", "them")
        return f"{rank_list(absent).capitalize()} {who} in an earlier new_group than those that wait for {them}."
    return f"{rank_list(absent).capitalize()} never called {status.rendezvous}."


def _are_in_other_groups(status: RankStatus, wait: Wait, statuses: Mapping[int, RankStatus]) -> bool:
    """Whether a rank waits in ``new_group`` for ranks that are in one as well."""
    return status.rendezvous == "new_group" and all(statuses[rank].rendezvous == "new_group" for rank in wait.missing)


def _num_local_groups(status: RankStatus) -> int:
    return 0 if status.accounts is None else status.accounts.num_local_groups


def let_go(statuses: Mapping[int, RankStatus]) -> list[tuple[int, PendingOp]]:
    """Messages whose ``Work`` was forgotten, by rank, where somebody waits who will not be answered for it."""
    if not any(wait.is_spoiled for wait in deadlocked_ranks(statuses).values()):
        return []
    return [
        (rank, message)
        for rank, status in sorted(statuses.items())
        for message in (status.accounts or Accounts()).dropped
        if not _was_taken(message, rank, statuses)
    ]


def _dropped(statuses: Mapping[int, RankStatus]) -> list[str]:
    return [
        f"Rank {rank} started {message.name} #{message.number}{on_line(message)} and let go of it without wait(): "
        + ("the message was not sent." if message.name == "isend" else "what was sent to it blocks the connection.")
        for rank, message in let_go(statuses)
    ]


def _was_taken(message: PendingOp, sender: int, statuses: Mapping[int, RankStatus]) -> bool:
    """Whether the other end has received a message that its sender let go of: gloo sends some of them all the same."""
    other = statuses.get(-1 if message.peer is None else message.peer)
    if message.name != "isend" or other is None or other.accounts is None:
        return False
    channel = (message.group, sender, other.rank, message.tag)
    return other.accounts.received.get(channel, 0) >= message.seq


def _circle(waits: Mapping[int, Wait]) -> list[str]:
    """Deadlock: rank 0 waits for rank 1, rank 1 for rank 0."""
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            missing = sorted(waits[rank].missing)
            rank = next((one for one in missing if one in waits), -1)
        if rank == start:
            steps = [f"rank {a} waits for rank {b}" for a, b in zip(path, [*path[1:], start], strict=True)]
            return [f"This is a deadlock: {', '.join(steps)}."]
    return []


def numbered(operation: Operation, members: tuple[int, ...] = ()) -> str:
    """all_reduce #4, and of which group where that is not the default one."""
    number = "" if operation.is_message else f" #{operation.number}"
    if operation.group == "0":
        return operation.name + number
    return (
        operation.name
        + number
        + (f" of the group of {rank_list(members)}" if members else f" of group {operation.group}")
    )


def on_line(message: PendingOp) -> str:
    """Where it was started: " on line 7 (cell, in step)"."""
    if message.where is None:
        return ""
    function = "" if message.where.function.startswith("<module") else f", in {message.where.function}"
    return f" on line {message.where.line_number} ({file_of(message.where)}{function})"


def members_of(status: RankStatus, operation: Operation) -> tuple[int, ...]:
    return (status.accounts or Accounts()).groups.get(operation.group, ())


def payload(operation: Operation) -> str:
    if not operation.shapes:
        return ""
    shape = " x ".join(map(str, operation.shapes[0])) or "one number"
    return f" ({operation.dtypes[0] if operation.dtypes else 'values'}, {shape})"
