"""What a rank does before each of its actions: which messages it starts, and which it waits for.

A message sets out when its receiver is ready for it, too. So a recv is best started an action *early*: what comes
meanwhile travels while this rank computes. That is only for back ends on which messages do not wait for each other,
such as gloo. On NCCL they do, and a recv must stand where ``messages.py`` put it, or the ranks may deadlock.

A rank waits for what the action needs, and then for those of its own messages that must have arrived by now: a gradient
that comes back proves that its activation was received. To wait for these costs no time, and their memory is free.
It has to be found out in this way because gloo never says of itself that a message was received.
"""

from __future__ import annotations

from typing import NamedTuple

from course_lib.parallel.pipeline.messages import steps_of
from course_lib.schedules.action import Action
from course_lib.schedules.dependencies import Transfer
from course_lib.schedules.table import Schedule

__all__ = ["Move", "moves_of", "proofs_of"]


class Move(NamedTuple):
    """Start ``sends`` and ``recvs`` together, wait for those in ``awaits``, run the action.

    Where two actions overlap, ``overlapped`` is the backward, which runs at the same time.
    """

    sends: tuple[Transfer, ...]
    recvs: tuple[Transfer, ...]
    awaits: tuple[Transfer, ...]
    action: Action | None
    overlapped: Action | None = None


def moves_of(schedule: Schedule, rank: int, *, early: bool = False) -> tuple[Move, ...]:
    """The row of a rank as moves; ``early`` starts recvs one move before they would be.

    A schedule that ends in a deadlock is a ValueError.
    """
    proofs, steps = proofs_of(schedule, rank), steps_of(schedule)[rank]
    recvs = [step.recvs for step in steps]
    if early and len(steps) > 1:
        recvs = [recvs[0] + recvs[1], *recvs[2:], ()]
    moves = []
    for (sends, _, action, overlapped), started in zip(steps, recvs, strict=True):
        arrivals = [schedule.dependencies.awaits.get(each) for each in (action, overlapped) if each]
        awaits = tuple(each for arrival in arrivals if arrival for each in (arrival, *proofs[arrival]))
        moves.append(Move(sends, started, awaits, action, overlapped))
    return tuple(moves)


def proofs_of(schedule: Schedule, rank: int) -> dict[Transfer, tuple[Transfer, ...]]:
    """For each message that a rank receives, those which it sent to the same peer and of which this is the proof.

    The peer had used them before it made the message. Each is listed once, with the first message that proves it.
    """
    dependencies = schedule.dependencies
    proofs: dict[Transfer, tuple[Transfer, ...]] = {}
    for peer_row in schedule.rows:
        used: list[Transfer] = []
        for action in peer_row:
            arrival, answer = dependencies.awaits.get(action), dependencies.sends.get(action)
            if arrival and arrival.sender == rank:
                used.append(arrival)
            if answer and answer.receiver == rank:
                proofs[answer] = tuple(used)
                used.clear()
    return proofs
