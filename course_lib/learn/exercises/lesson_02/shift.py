"""02.shift: the clinic's exchange, mended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster import exchange, recv, send
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02.costs import CostJudge, sent, values_are_right
from course_lib.learn.judge import RankJudge
from course_lib.meter import Communication, expect

__all__ = ["SHIFT"]

_LABEL = "five numbers"
_SIZE_BYTES = 8 * 5


def _tensor(rank: int) -> torch.Tensor:
    return torch.arange(5) + 100 * rank


def _weigh(communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    wanted = {"bytes by rank": [_SIZE_BYTES] * n}
    got = {"bytes by rank": [communication.sent_bytes(rank) for rank in range(n)]}
    wrong = expect(communication, sent_bytes=_SIZE_BYTES)
    return wanted, got, " ".join(wrong)


def _sends_first(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % me.world_size)])
    exchange([recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def _to_the_left(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs, n = torch.empty_like(mine), me.world_size
    exchange([send(mine, (me.rank - 1) % n), recv(theirs, (me.rank + 1) % n)])
    return theirs


def _asks_everybody(me: Any, mine: torch.Tensor) -> torch.Tensor:
    everything = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(everything, mine)
    return everything[me.rank - 1]


def _ends_at_the_edge(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = mine.clone()
    messages = [send(mine, me.rank + 1)] if me.rank + 1 < me.world_size else []
    messages += [recv(theirs, me.rank - 1)] if me.rank else []
    exchange(messages)
    return theirs


def _hangs(evidence: Evidence) -> bool:
    return evidence.error is not None and evidence.error.kind == "RankTimeout"


SHIFT = Exercise(
    name="02.shift",
    title="Mend the exchange",
    judge=CostJudge(
        RankJudge(
            (2, 4),
            (Case(_LABEL, lambda rank, n: (_tensor(rank),), lambda rank, n: _tensor((rank - 1) % n)),),
            timeout_s=3.0,
        ),
        {_LABEL: _weigh},
    ),
    mistakes=(
        Mistake(
            "still-waits",
            "It still hangs, in a deadlock: every rank waits in one half of its exchange before it begins the other. "
            "Hand both halves to *one* call of `exchange`, so that they are under way together.",
            _sends_first,
            _hangs,
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
            _asks_everybody,
            lambda evidence: (
                values_are_right(evidence) and max(sent(evidence, "bytes by rank")) > _SIZE_BYTES
            ),
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
    passed="One message out, one in, under way together; nobody waits for anybody's first half.",
)
