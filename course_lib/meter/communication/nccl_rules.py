"""NCCL's rules, held against the calls of a run on any back end: what works on gloo and would fail on NCCL.

::

    run = metered(cluster, train)
    for breach in run.communication.nccl_breaches():
        print(breach)

=============  =====================================================================================================
rule           what NCCL demands
=============  =====================================================================================================
order          The calls of a group happen one after the other, on every rank in the same order. Messages that need
               each other are started together, by ``batch_isend_irecv`` (``nccl_queues`` carries the run out again).
groups         Calls of several groups that are under way at once begin in the same order on all ranks they share.
tags           A tag means nothing: messages from one rank to another arrive in the order in which they were sent.
any source     A receive names its sender.
unsupported    There is no ``monitored_barrier``, and there are no 16-bit whole numbers.
first call     The first call of a group is made by all its ranks; with ``lazy_groups`` only, for groups that were
               made without ``device_id`` (``Cluster`` gives one).
=============  =====================================================================================================

A run with messages that the course orders otherwise on gloo (its pipelines: ``cluster.base.call_marks``) says nothing
of the order on NCCL, and is not asked; give ``me.backend`` as "nccl" to see that order.

Not seen here: reduce operations that NCCL lacks (BAND, BOR, BXOR), a result that is used on the device before anybody
waited (``Run.left`` tells of those), and tensors on the wrong device. Sources: the docstrings of
``torch.distributed`` (``batch_isend_irecv``, ``isend``, ``new_group``), ``ProcessGroupNCCL``, and NCCL's user guide
("Point-to-point communication", "Using multiple NCCL communicators concurrently").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from course_lib.cluster.base.failure import Frame
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.nccl_queues import QueuedOp, carry_out

__all__ = ["Breach", "nccl_breaches"]

_NO_DTYPES = ("int16", "uint16", "uint32", "uint64")
_MOST_NAMED = 3


@dataclass(frozen=True)
class Breach:
    """One thing that NCCL would not take. ``line`` is where the first call of it stands in the user's code."""

    rule: str
    text: str
    line: Frame | None = None

    def __str__(self) -> str:
        location = f" (line {self.line.line_number}, in {self.line.function})" if self.line else ""
        return f"{self.text}{location}"


def nccl_breaches(calls: Sequence[Call], *, lazy_groups: bool = False) -> tuple[Breach, ...]:
    """What of this run NCCL would not take, at most one for each rule; nothing where all is well.

    ``lazy_groups``: the groups were made without ``device_id``, so that their first call forms the communicator.
    """
    found = [_unsupported(calls), _any_source(calls), _tags(calls), _groups(calls)]
    # A queue cannot be carried out by other rules than its own, nor in an order that is meant for gloo.
    if not any(found) and not any(call.only_on_gloo for call in calls):
        found.append(_order(calls))
    if lazy_groups:
        found.append(_first_call(calls))
    return tuple(breach for breach in found if breach)


def _unsupported(calls: Sequence[Call]) -> Breach | None:
    for call in calls:
        if call.operator == "monitored_barrier_":
            text = "NCCL has no monitored_barrier; barrier is there on both, and names nobody"
            return Breach("unsupported", text, call.line)
        if call.dtype in _NO_DTYPES:
            text = f"NCCL has no {call.dtype}, which {call.operation} was given; int32 or int64 work on both"
            return Breach("unsupported", text, call.line)
    return None


def _any_source(calls: Sequence[Call]) -> Breach | None:
    for call in calls:
        if call.operator == "recv_any_source_":
            text = f"On NCCL a receive names its sender; rank {call.rank} receives from whoever sends. Give src="
            return Breach("any source", text, call.line)
    return None


def _tags(calls: Sequence[Call]) -> Breach | None:
    for (sender, receiver), sent, received in _channels(calls):
        pairs = zip(sent, received, strict=False)
        wrong = next(((s, r) for s, r in pairs if (s.tag, s.size_bytes) != (r.tag, r.size_bytes)), None)
        if wrong:
            tags = [[call.tag for call in side[:_MOST_NAMED]] for side in (sent, received)]
            text = (
                f"NCCL knows no tags: rank {sender} sends to {receiver} with tags {_listed(tags[0])}, rank {receiver} "
                f"receives with {_listed(tags[1])}, and would get one message in place of another. Receive in the "
                "order of sending"
            )
            return Breach("tags", text, wrong[1].line)
    return None


def _channels(calls: Sequence[Call]) -> Iterator[tuple[tuple[int, int], list[Call], list[Call]]]:
    """The messages of each group from one rank to another, in the order of the sends and of the receives."""
    sent, received = defaultdict(list), defaultdict(list)
    for call in sorted(calls, key=lambda call: call.number):
        if call.operation == "send":
            sent[call.group_name, call.rank, call.peer].append(call)
        elif call.operation == "recv" and call.peer is not None:
            received[call.group_name, call.peer, call.rank].append(call)
    for name, sender, receiver in sorted(sent, key=str):
        assert receiver is not None
        yield (sender, receiver), sent[name, sender, receiver], received[name, sender, receiver]


def _groups(calls: Sequence[Call]) -> Breach | None:
    """Collectives of two groups, in flight at once, that two ranks begin in different order."""
    by_rank: dict[int, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.number):
        if not call.is_message:
            by_rank[call.rank].append(call)
    for a, b in combinations(sorted(by_rank), 2):
        shared = {c.group_name for c in by_rank[a]} & {c.group_name for c in by_rank[b]}
        orders = [[c for c in by_rank[rank] if c.group_name in shared] for rank in (a, b)]
        for one, other in zip(*orders, strict=False):
            if one.group_name != other.group_name:
                text = (
                    f"NCCL wants one order of groups on all ranks: rank {a} begins its {one.operation} among ranks "
                    f"{_listed(one.group)} where rank {b} begins its {other.operation} among {_listed(other.group)}, "
                    "with the other under way; each may hold the device that the other one waits for"
                )
                return Breach("groups", text, other.line)
    return None


def _order(calls: Sequence[Call]) -> Breach | None:
    stuck = carry_out(calls)
    if not stuck:
        return None
    fronts = "; ".join(_front_text(entry) for entry in stuck[:_MOST_NAMED])
    more = f"; and {len(stuck) - _MOST_NAMED} more ranks wait" if len(stuck) > _MOST_NAMED else ""
    text = f"On NCCL this may hang: {fronts}{more}. It carries out the calls of a group one after the other"
    if any(entry.is_message for entry in stuck):
        text += "; dist.batch_isend_irecv starts messages together"
    return Breach("order", text, stuck[0].first.line)


def _front_text(entry: QueuedOp) -> str:
    call = entry.open[0]
    if not entry.is_message:
        return f"rank {call.rank} waits in its {call.operation} (call {call.number})"
    where = f"its send to {call.peer}" if call.operation == "send" else f"its receive from {call.peer}"
    return f"rank {call.rank} waits in {where} (call {call.number})"


def _first_call(calls: Sequence[Call]) -> Breach | None:
    first: dict[str, dict[int, Call]] = defaultdict(dict)
    for call in sorted(calls, key=lambda call: call.number):
        first[call.group_name].setdefault(call.rank, call)
    for by_rank in first.values():
        some = next(iter(by_rank.values()))
        absent = [rank for rank in some.group if rank not in by_rank or not _is_of_batch(by_rank[rank])]
        if absent and any(_is_of_batch(call) for call in by_rank.values()):
            text = (
                f"The first call of a group forms NCCL's communicator and is made by all its ranks; here it is a "
                f"batch of messages without rank {_listed(absent)}. Give init_process_group a device_id, or begin "
                "with a barrier"
            )
            return Breach("first call", text, some.line)
    return None


def _is_of_batch(call: Call) -> bool:
    return call.batch is not None


def _listed(values: object) -> str:
    return ", ".join(map(str, values))  # type: ignore[call-overload]
