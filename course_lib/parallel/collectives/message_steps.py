"""In which step each message of a run takes place: ranks have no common clock, but messages order what they did."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

__all__ = ["Batch", "message_steps"]

Batch = list[tuple[int, int, bool]]  # (peer, size_bytes, whether it is a recv) of messages that start together
End = tuple[int, int, int]  # rank, number of its batch, index in the batch


def message_steps(batches: Sequence[Sequence[Batch]]) -> dict[tuple[int, int], dict[int, int]]:
    """The step of each message, by (rank, number of its batch) and index in the batch.

    A message takes place in the step after the last in which its sender or its receiver was busy before.
    """
    ends = _pairs(batches)
    steps = {
        (rank, number): dict.fromkeys(range(len(batch)), 1)
        for rank, mine in enumerate(batches)
        for number, batch in enumerate(mine)
    }

    def busy_until(rank: int, number: int) -> int:
        return max((step for done in range(number) for step in steps[rank, done].values()), default=0)

    changed = True
    while changed:  # until nothing moves back any more
        changed = False
        for (rank, number, index), (peer, theirs, at) in ends:
            step = 1 + max(busy_until(rank, number), busy_until(peer, theirs))
            if step != steps[rank, number][index]:
                steps[rank, number][index] = steps[peer, theirs][at] = step
                changed = True
    return steps


def _pairs(batches: Sequence[Sequence[Batch]]) -> list[tuple[End, End]]:
    """Both ends of each message: between two ranks, messages arrive in the order in which they were sent."""
    sends: dict[tuple[int, int], deque[End]] = defaultdict(deque)
    recvs: dict[tuple[int, int], deque[End]] = defaultdict(deque)
    for rank, mine in enumerate(batches):
        for number, batch in enumerate(mine):
            for index, (peer, _, is_recv) in enumerate(batch):
                pair = (peer, rank) if is_recv else (rank, peer)
                (recvs if is_recv else sends)[pair].append((rank, number, index))
    return [both for pair, ends in sends.items() for both in zip(ends, recvs[pair], strict=True)]
