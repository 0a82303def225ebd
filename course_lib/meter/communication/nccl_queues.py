"""What a recorded run would do on NCCL: carried out again, one call of a group after the other, until nothing moves.

gloo starts a message at once and lets the caller go on. NCCL puts each call of a group into one queue of the device,
and the next begins when the one before is over. A send is over when it has met its receive. So two ranks that start
a send each and then a receive get through on gloo, and wait for each other on NCCL, unless ``batch_isend_irecv`` has
made one entry of the two. Source: ``ProcessGroupNCCL`` (a group made with ``device_id`` has one communicator for all
its calls, messages included) and NCCL's user guide, "Point-to-point communication".

Small messages may fit a buffer of NCCL and get through all the same; no document promises it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from course_lib.meter.communication.call import Call

__all__ = ["QueuedOp", "carry_out"]


@dataclass(eq=False)
class QueuedOp:
    """One place in a rank's queue of one group: a collective, a message, or the messages of a batch."""

    calls: tuple[Call, ...]
    open: list[Call] = field(init=False)  # those that have not met their other half
    after: list[QueuedOp] = field(default_factory=list)  # what the rank had waited for before it began this

    def __post_init__(self) -> None:
        self.open = list(self.calls)

    @property
    def first(self) -> Call:
        return self.calls[0]

    @property
    def is_message(self) -> bool:
        return self.first.is_message

    @property
    def can_start(self) -> bool:
        return not any(entry.open for entry in self.after)


def carry_out(calls: Sequence[Call]) -> list[QueuedOp]:
    """Let everything happen that can; what is returned stands at the front of its queue, and never ends."""
    queues = _queues(calls)
    while True:
        fronts = {key: queue[0] for key, queue in queues.items() if queue and queue[0].can_start}
        if not any(_match(fronts, *key) for key in fronts):
            return list(fronts.values())
        for queue in queues.values():
            while queue and not queue[0].open:
                queue.popleft()


def _queues(calls: Sequence[Call]) -> dict[tuple[int, str], deque[QueuedOp]]:
    """By rank and group, in the order in which the rank began them."""
    queues: dict[tuple[int, str], deque[QueuedOp]] = {}
    by_rank = groupby(sorted(calls, key=lambda call: (call.rank, call.number)), lambda call: call.rank)
    for rank, mine in by_rank:
        of_rank: dict[str, deque[QueuedOp]] = {}
        for entry in _entries(mine):
            own = of_rank.setdefault(entry.first.group_name, deque())
            others = (_last_waited_for(queue, entry.first) for queue in of_rank.values() if queue is not own)
            entry.after = [other for other in others if other is not None]
            own.append(entry)
        queues |= {(rank, group_name): queue for group_name, queue in of_rank.items()}
    return queues


def _last_waited_for(queue: deque[QueuedOp], later: Call) -> QueuedOp | None:
    """The last of a queue that the rank had waited for before it began ``later``: with it, all before it are over."""
    for entry in reversed(queue):
        if any(c.waited_after is not None and c.waited_after < later.number for c in entry.calls):
            return entry
    return None


def _entries(calls: Iterable[Call]) -> Iterator[QueuedOp]:
    def of_batch(call: Call) -> tuple[str, int, int]:
        alone = call.batch is None
        return call.group_name, call.number if alone else -1, -1 if alone else call.batch or 0

    for _, together in groupby(calls, of_batch):
        yield QueuedOp(tuple(together))


def _match(fronts: dict[tuple[int, str], QueuedOp], rank: int, group_name: str) -> bool:
    """Whether something of this front has met its other half."""
    entry = fronts[rank, group_name]
    if not entry.is_message:
        return _match_all(fronts, entry, group_name)
    has_moved = False
    for call in [c for c in entry.open if c.operation == "send"]:
        peer = fronts.get((call.peer if call.peer is not None else -1, group_name))
        half = next((c for c in peer.open if c.operation == "recv" and c.peer in (rank, None)), None) if peer else None
        if peer is not None and half is not None:
            entry.open.remove(call)
            peer.open.remove(half)
            has_moved = True
    return has_moved


def _match_all(fronts: dict[tuple[int, str], QueuedOp], entry: QueuedOp, group_name: str) -> bool:
    """A collective: all ranks of the group have it at the front."""
    others = [fronts.get((rank, group_name)) for rank in entry.first.group]
    here = [other for other in others if other is not None and other.first.operation == entry.first.operation]
    if len(here) < len(entry.first.group):
        return False
    for other in here:
        other.open.clear()
    return bool(here)
