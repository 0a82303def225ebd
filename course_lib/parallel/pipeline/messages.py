"""The messages that a schedule implies, put in batches that no two ranks can block each other with.

``batch_isend_irecv`` starts sends and recvs together. On NCCL the batches of a rank run one after the other, and the
n-th send to a rank meets its n-th recv: batches that two ranks start in crossing orders are a deadlock. The way out is
one order for all: ranks are walked through the schedule in steps, and each message is given to its sender and its
receiver in the step in which it is made, so that every rank's batches are a part of the same list. PyTorch's
``_add_send_recv`` rests on the same idea.
"""

from __future__ import annotations

from typing import NamedTuple

from course_lib.schedules.action import Action
from course_lib.schedules.dependencies import Transfer
from course_lib.schedules.table import Schedule

__all__ = ["MessageStep", "steps_of"]


class MessageStep(NamedTuple):
    """Start ``sends`` and ``recvs`` together, wait for what the action needs, run the action.

    Recvs may be for a later action; sends are of earlier ones. The last step of a rank may have no action. Where two
    actions overlap, ``overlapped`` is the backward.
    """

    sends: tuple[Transfer, ...]
    recvs: tuple[Transfer, ...]
    action: Action | None
    overlapped: Action | None = None


def steps_of(schedule: Schedule) -> tuple[tuple[MessageStep, ...], ...]:
    """For each rank its actions with the batches of messages between them.

    Works also for ranks that wait for each batch to end before they go on. Raises ValueError where ranks wait for
    each other; ask ``validate`` first, which says more.
    """
    dependencies = schedule.dependencies
    if dependencies.stuck:
        rank, (action, _) = next(iter(dependencies.stuck.items()))
        raise ValueError(
            f"A deadlock: rank {rank} waits at {schedule.label(action)} for ever; call validate to see what is wrong."
        )
    steps: list[list[MessageStep]] = [[] for _ in range(schedule.num_ranks)]
    sends: list[list[Transfer]] = [[] for _ in range(schedule.num_ranks)]
    recvs: list[list[Transfer]] = [[] for _ in range(schedule.num_ranks)]

    def close(rank: int, action: Action | None = None) -> None:
        steps[rank].append(MessageStep(tuple(sends[rank]), tuple(recvs[rank]), action))
        sends[rank].clear()
        recvs[rank].clear()

    made: list[Transfer] = []  # in the step under way: handed out when it is over
    now, latest = 0, [-1] * schedule.num_ranks  # the step under way, and each rank's latest
    for step, rank, action in dependencies.order:
        if step > now:
            _hand_out(made, sends, recvs)
            now = step
        if latest[rank] == step:
            steps[rank][-1] = steps[rank][-1]._replace(overlapped=action)
        else:
            close(rank, action)
        latest[rank] = step
        if action in dependencies.sends:
            made.append(dependencies.sends[action])
    _hand_out(made, sends, recvs)
    for rank in range(schedule.num_ranks):
        if sends[rank] or recvs[rank]:
            close(rank)
    return tuple(map(tuple, steps))


def _hand_out(made: list[Transfer], sends: list[list[Transfer]], recvs: list[list[Transfer]]) -> None:
    for transfer in made:
        sends[transfer.sender].append(transfer)
        recvs[transfer.receiver].append(transfer)
    made.clear()
