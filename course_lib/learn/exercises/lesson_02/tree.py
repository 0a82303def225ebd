"""02.tree: a broadcast that doubles the ranks that have it in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02.beside import mistakes_beside
from course_lib.learn.exercises.lesson_02.costs import (
    CostJudge,
    by_messages_alone,
    forest_rounds,
    sent,
    values_are_right,
)
from course_lib.learn.judging.judge import RankJudge
from course_lib.meter import Communication

__all__ = ["TREE"]

_LABEL, _TABLE, _WIDE = "six numbers", "a table of 3 by 5", "three numbers in float64"
_SIZE_BYTES = 8 * 6


def _tensor(rank: int) -> torch.Tensor:
    return torch.arange(6) * 10 + 7 if rank == 0 else torch.full((6,), -rank)


def _table(rank: int) -> torch.Tensor:
    return (torch.arange(15.0) / 4 + 1).view(3, 5) if rank == 0 else torch.full((3, 5), float("nan"))


def _wide(rank: int) -> torch.Tensor:
    return torch.arange(3, dtype=torch.float64) / 3 - rank


def _weigh(size_bytes: int, communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    wanted = {"bytes in all": (n - 1) * size_bytes, "rounds": (n - 1).bit_length()}
    got = {
        "bytes in all": communication.total_bytes,
        "rounds": forest_rounds(communication),
        "bytes by rank": [communication.sent_bytes(rank) for rank in range(n)],
        "bytes received by rank": [communication.received_bytes(rank) for rank in range(n)],
        "messages": sum(communication.num_messages(rank) for rank in range(n)),
    }
    return wanted, got, by_messages_alone(communication) or _words(wanted, got, size_bytes, n)


def _words(wanted: Mapping[str, Any], got: Mapping[str, Any], size_bytes: int, n: int) -> str:
    if got["bytes in all"] != wanted["bytes in all"]:
        times = got["bytes in all"] / size_bytes
        return f"the tensor was sent {times:g} times; every rank but the first needs it once: {n - 1} times"
    for rank, received in enumerate(got["bytes received by rank"]):
        if received != (size_bytes if rank else 0):
            return f"rank {rank} received {received} B of a tensor of {size_bytes} B"
    if got["messages"] > n - 1:
        return f"the tensor went in {got['messages']} messages; each costs a latency, and {n - 1} will do"
    if got["rounds"] != wanted["rounds"]:
        return f"it took {got['rounds']} rounds, one message after the other; {wanted['rounds']} will do"
    return ""


def _walk(reaches: Callable[[int], list[int]], within: bool = True) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """The tree, with its rounds in another order, or without looking where the ranks end."""

    def broadcast(me: Any, tensor: torch.Tensor) -> torch.Tensor:
        for reach in reaches(me.world_size):
            if me.rank < reach and (me.rank + reach < me.world_size or not within):
                exchange([send(tensor, me.rank + reach)])
            elif reach <= me.rank < 2 * reach:
                exchange([recv(tensor, me.rank - reach)])
        return tensor

    return broadcast


def _reaches(n: int) -> list[int]:
    return [2**number for number in range((n - 1).bit_length())]


def _right_but(check: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: values_are_right(evidence) and check(evidence)


def _on_four(evidence: Evidence) -> list[Any]:
    """What each of 4 ranks gave back, of the six numbers."""
    return [evidence.got(f"{_LABEL}, rank {rank} of 4") for rank in range(4)]


def _old_numbers_of_another(evidence: Evidence) -> bool:
    """Whether a rank other than the root has what another had before: the other's number throughout, with a minus."""
    old = [[torch.equal(got, _tensor(other)) for other in range(1, 4)] for got in _on_four(evidence)]
    if any(old[0]):
        return False  # the messages go another way
    return any(same for rank, row in enumerate(old) for other, same in enumerate(row, start=1) if other != rank)


def _only_the_root_sent(evidence: Evidence) -> bool:
    kept = [torch.equal(got, _tensor(rank)) for rank, got in enumerate(_on_four(evidence)) if rank]
    sizes = sent(evidence, "bytes by rank")
    return any(kept) and not all(kept) and sizes[0] > 0 and not any(sizes[1:])


def _goes_past(evidence: Evidence) -> bool:
    """A message to a rank that is not there; the sentence is that of ``cluster``."""
    error = evidence.error
    return (
        error is not None
        and "which does not exist" in error.message
        and "sends to" in error.message
        and "3 ranks" in evidence.wrong[0].case
    )


def _floods_some(evidence: Evidence) -> bool:
    received = sent(evidence, "bytes received by rank")
    return received[0] == 0 and max(received) >= 2 * _SIZE_BYTES


TREE = Exercise(
    name="02.tree",
    title="A broadcast along a tree",
    judge=CostJudge(
        RankJudge(
            (2, 3, 4, 5, 1),
            (
                Case(_LABEL, lambda rank, n: (_tensor(rank),), lambda rank, n: _tensor(0)),
                Case(_WIDE, lambda rank, n: (_wide(rank),), lambda rank, n: _wide(0)),
                Case(_TABLE, lambda rank, n: (_table(rank),), lambda rank, n: _table(0)),
            ),
            timeout_s=5.0,
        ),
        {_LABEL: partial(_weigh, _SIZE_BYTES), _WIDE: partial(_weigh, 8 * 3), _TABLE: partial(_weigh, 4 * 15)},
        handed="filled",
        also=7,
    ),
    mistakes=(
        *mistakes_beside(_walk(_reaches), in_place=True),
        Mistake(
            "moves-too-little",
            "Every rank has the right numbers, and too little was sent for that: each rank but the first has to "
            "receive them once.",
            recognise=_right_but(lambda evidence: sent(evidence, "bytes in all") < 3 * _SIZE_BYTES),
        ),
        Mistake(
            "sent-twice",
            "Every rank has the tensor, and some have received it more than once. In a tree each rank but the root "
            "receives exactly once.",
            recognise=_right_but(_floods_some),
        ),
        Mistake(
            "star",
            "Right, and the root does all the sending: n - 1 messages through one port, one after the other. After the "
            "first message two ranks have the tensor. Let both of them send.",
            recognise=_right_but(lambda evidence: sent(evidence, "bytes by rank", 5) == [4 * _SIZE_BYTES, 0, 0, 0, 0]),
        ),
        Mistake(
            "chain",
            "Right, and one rank works at a time: the last one waits for n - 1 messages, one after the other. Let "
            "every rank that has the tensor send in every round, to a rank that has not.",
            recognise=_right_but(
                lambda evidence: (
                    sorted(sent(evidence, "bytes by rank")) == [0, *[_SIZE_BYTES] * 3] and sent(evidence, "rounds") == 3
                )
            ),
        ),
        Mistake(
            "two-children",
            "Right, and as quick as can be up to 6 ranks. But each rank sends twice at most and is idle then, while "
            "others wait: on 7 ranks that takes 4 rounds, and 3 will do. Let every rank that has the tensor send in "
            "every round, as long as somebody has not.",
            recognise=_right_but(
                lambda evidence: (
                    sent(evidence, "rounds") == 2
                    and sent(evidence, "rounds", 7) == 4
                    and max(sent(evidence, "bytes by rank", 7)) == 2 * _SIZE_BYTES
                )
            ),
        ),
        Mistake(
            "wrong-order",
            "A rank passes the tensor on before it has it, so others get its old numbers. Begin with the nearest: in "
            "the first round only rank 0 has something to send.",
            recognise=_old_numbers_of_another,
        ),
        Mistake(
            "only-the-root-sends",
            "Some ranks never get the tensor: only the root sends, and not to all of them. The ranks that have "
            "received it must send too.",
            recognise=_only_the_root_sent,
        ),
        Mistake(
            "past-the-last-rank",
            "Right for 2 ranks, and among 3 a rank sends past the last one. Where the ranks are no power of two, some "
            "have nobody to send to in the last round. Ask whether the receiver's number is below the world size.",
            recognise=_goes_past,
        ),
        Mistake(
            "nothing-sent",
            "Every rank still has its own numbers: nothing was sent.",
            lambda me, tensor: tensor,
        ),
    ),
    hints=(
        "Who has the tensor after each round? Rank 0; then 0 and 1; then 0, 1, 2 and 3. Each of them sends to a rank "
        "that many places further on.",
        "With `reach` = 1, 2, 4, ...: ranks below `reach` have the tensor and send to `me.rank + reach`, if there is "
        "such a rank. Ranks from `reach` to `2 * reach - 1` receive from `me.rank - reach`.",
        "reach = 1; while reach < me.world_size: if me.rank < reach: send to me.rank + reach when that is below "
        "me.world_size; elif me.rank < 2 * reach: receive from me.rank - reach; then reach *= 2.",
    ),
    forbidden=(
        "torch.distributed.broadcast",
        "torch.distributed.broadcast_object_list",
        "torch.distributed.scatter",
        "torch.distributed.all_gather",
        "torch.distributed.all_reduce",
        "course_lib.parallel.collectives.broadcast",
        "course_lib.parallel.collectives.scatter",
        "course_lib.parallel.collectives.all_gather",
        "course_lib.parallel.collectives.all_reduce",
    ),
    passed="On 2, 3, 4, 5 and 7 ranks each rank has the tensor after log2(n) rounds, rounded up. Every rank but the "
    "first received it once.",
)
