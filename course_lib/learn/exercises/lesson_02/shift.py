"""02.shift: the clinic's exchange, mended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02 import hangs
from course_lib.learn.exercises.lesson_02.beside import mistakes_beside
from course_lib.learn.exercises.lesson_02.costs import (
    SPOILT,
    CostJudge,
    beside_messages,
    sent,
    values_are_right,
)
from course_lib.learn.judging.judge import RankJudge
from course_lib.meter import Communication

__all__ = ["SHIFT"]

_LABEL, _TABLE, _WIDE = "five numbers", "a table of 3 by 2", "four numbers in float64"
_SIZE_BYTES = 8 * 5


def _tensor(rank: int) -> torch.Tensor:
    return torch.arange(5) + 100 * rank


def _table(rank: int) -> torch.Tensor:
    return torch.arange(6.0).view(3, 2) / 4 - rank


def _wide(rank: int) -> torch.Tensor:
    return torch.tensor([1, -2, 0.25, 7], dtype=torch.float64) / 3 + 8 * rank


def _weigh(size_bytes: int, communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    wanted = {"bytes by rank": [size_bytes] * n}
    got = {
        "bytes by rank": [communication.sent_bytes(rank) for rank in range(n)],
        "receivers": [[to for to in range(n) if communication.matrix()[rank][to]] for rank in range(n)],
        "operations": sorted(communication.by_operation()),
    }
    return wanted, got, beside_messages(communication, size_bytes) or _words(communication, size_bytes)


def _words(communication: Communication, size_bytes: int) -> str:
    for rank in range(communication.world_size):
        size, number = communication.sent_bytes(rank), communication.num_messages(rank)
        if size == 0:
            return f"rank {rank} sent nothing"
        if size != size_bytes:
            return f"rank {rank} sent {size} B, {size / size_bytes:.3g} times its tensor of {size_bytes} B"
        if number > 1:
            return f"rank {rank} sent its tensor in {number} messages, and one will do; each costs a latency"
    return ""


def _right(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % me.world_size), recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def _changed_its_own(evidence: Evidence) -> bool:
    both = [one for one in evidence.wrong if one.kind_of_difference == SPOILT]
    return evidence.error is None and bool(both) and all(sent(evidence, "bytes by rank", 2))


def _to_the_left(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs, n = torch.empty_like(mine), me.world_size
    exchange([send(mine, (me.rank - 1) % n), recv(theirs, (me.rank + 1) % n)])
    return theirs


def _ends_at_the_edge(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = mine.clone()
    messages = [send(mine, me.rank + 1)] if me.rank + 1 < me.world_size else []
    messages += [recv(theirs, me.rank - 1)] if me.rank else []
    exchange(messages)
    return theirs


def _everything_to_everybody(evidence: Evidence) -> bool:
    others = [[to for to in range(4) if to != rank] for rank in range(4)]
    to_all = sent(evidence, "receivers") == others or sent(evidence, "operations") == ["all_gather"]
    sizes = sent(evidence, "bytes by rank")
    return values_are_right(evidence) and to_all and all(size >= 3 * _SIZE_BYTES for size in sizes)


SHIFT = Exercise(
    name="02.shift",
    title="Mend the exchange",
    judge=CostJudge(
        RankJudge(
            (2, 3, 4, 5),
            (
                Case(_LABEL, lambda rank, n: (_tensor(rank),), lambda rank, n: _tensor((rank - 1) % n)),
                Case(_WIDE, lambda rank, n: (_wide(rank),), lambda rank, n: _wide((rank - 1) % n)),
                Case(_TABLE, lambda rank, n: (_table(rank),), lambda rank, n: _table((rank - 1) % n)),
            ),
            timeout_s=3.0,
        ),
        {_LABEL: partial(_weigh, _SIZE_BYTES), _WIDE: partial(_weigh, 8 * 4), _TABLE: partial(_weigh, 4 * 6)},
        handed="kept",
    ),
    mistakes=(
        *mistakes_beside(_right, in_place=False, alone=False),
        Mistake(
            "receives-over-its-own",
            "What came back is not the tensor of the rank before; and `mine` was written to, or is itself what came "
            "back. `mine` is to stay as it is: receive into a tensor of its own, `torch.empty_like(mine)`. What "
            "arrives in the memory of a message that is under way may take its place before it is sent.",
            recognise=_changed_its_own,
        ),
        Mistake(
            "still-waits",
            "It still hangs, in a deadlock: two ranks wait until their message is taken, and neither takes the "
            "other's. Usually each wants to send before it receives. Hand both halves to *one* call of `exchange`, so "
            "that they are under way together.",
            recognise=hangs.nobody_receives,
        ),
        Mistake(
            "still-waits-to-receive",
            "It still hangs, in a deadlock: two ranks wait for a message from each other, and neither has come. "
            "Usually each wants to receive before it sends. Hand both halves to *one* call of `exchange`, so that they "
            "are under way together.",
            recognise=hangs.nobody_sends,
        ),
        Mistake(
            "other-way-round",
            "It no longer hangs, but goes the wrong way: you got the tensor of the rank after you. Send to "
            "`(me.rank + 1) % n`, receive from `(me.rank - 1) % n`.",
            _to_the_left,
        ),
        Mistake(
            "asks-everybody",
            "Right, and more is sent than needed: everybody's tensor goes to everybody, to keep one. Send one message "
            "and receive one.",
            recognise=_everything_to_everybody,
        ),
        Mistake(
            "ends-at-the-edge",
            "Rank 0 keeps its own tensor: your row of ranks has two ends. In a ring the last rank sends to rank 0; "
            "`% me.world_size` closes it.",
            _ends_at_the_edge,
        ),
        Mistake(
            "own-tensor",
            "It no longer hangs, because nothing is sent any more: every rank gives back its own tensor.",
            lambda me, mine: mine,
        ),
    ),
    hints=(
        "Each rank waits for its message to be taken. Who would take it?",
        "`exchange` takes a *list* of messages, starts them all, and then waits. How many lists are there in the code?",
        "`exchange([send(mine, after), recv(theirs, before)])`.",
    ),
    passed="On 2, 3, 4 and 5 ranks, each rank sends one message and receives one. No rank hangs, and `mine` is as it "
    "was.",
)
