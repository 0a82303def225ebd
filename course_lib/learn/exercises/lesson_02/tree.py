"""02.tree: a broadcast that doubles the ranks that have it in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster import exchange, recv, send
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02.costs import CostJudge, forest_rounds, sent, values_are_right
from course_lib.learn.judge import RankJudge
from course_lib.meter import Communication

__all__ = ["TREE"]

_LABEL = "six numbers"
_SIZE_BYTES = 8 * 6


def _tensor(rank: int) -> torch.Tensor:
    return torch.arange(6) * 10 + 7 if rank == 0 else torch.full((6,), -rank)


def _weigh(communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    wanted = {"bytes in all": (n - 1) * _SIZE_BYTES, "rounds": (n - 1).bit_length()}
    got = {
        "bytes in all": communication.total_bytes,
        "rounds": forest_rounds(communication),
        "bytes by rank": [communication.sent_bytes(rank) for rank in range(n)],
    }
    if got["bytes in all"] != wanted["bytes in all"]:
        times = got["bytes in all"] / _SIZE_BYTES
        wrong = f"the tensor was sent {times:g} times; every rank but the first needs it once: {n - 1} times"
    elif got["rounds"] != wanted["rounds"]:
        wrong = f"it took {got['rounds']} rounds, one message after the other; {wanted['rounds']} will do"
    else:
        wrong = ""
    return wanted, got, wrong


def _star(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    if me.rank == 0:
        exchange([send(tensor, rank) for rank in range(1, me.world_size)])
    else:
        exchange([recv(tensor, 0)])
    return tensor


def _chain(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    if me.rank:
        exchange([recv(tensor, me.rank - 1)])
    if me.rank + 1 < me.world_size:
        exchange([send(tensor, me.rank + 1)])
    return tensor


def _floods(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Whoever has it sends it to everybody behind, whether they have it or not."""
    for source in range(me.world_size - 1):
        if me.rank == source:
            exchange([send(tensor, rank) for rank in range(source + 1, me.world_size)])
        elif me.rank > source:
            exchange([recv(tensor, source)])
    return tensor


def _knows_it(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    return _tensor(0)


def _walk(
    reaches: Callable[[int], list[int]], within: bool = True
) -> Callable[[Any, torch.Tensor], torch.Tensor]:
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


def _only_the_root_sends(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    for reach in _reaches(me.world_size):
        if me.rank == 0:
            exchange([send(tensor, reach)])
        elif me.rank == reach:
            exchange([recv(tensor, 0)])
    return tensor


def _by_the_library(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    dist.broadcast(tensor, 0)
    return tensor


def _right_but(check: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: values_are_right(evidence) and check(evidence)


TREE = Exercise(
    name="02.tree",
    title="A broadcast along a tree",
    judge=CostJudge(
        RankJudge(
            (4, 2, 3),
            (Case(_LABEL, lambda rank, n: (_tensor(rank),), lambda rank, n: _tensor(0)),),
            timeout_s=5.0,
        ),
        {_LABEL: _weigh},
    ),
    mistakes=(
        Mistake(
            "moves-too-little",
            "Every rank has the right numbers, and too little was sent for that: each rank but the first has to "
            "receive them once.",
            _knows_it,
            _right_but(lambda evidence: sent(evidence, "bytes in all") < 3 * _SIZE_BYTES),
        ),
        Mistake(
            "sent-twice",
            "Every rank has the tensor, and some have received it more than once. In a tree each rank but the root "
            "receives exactly once.",
            _floods,
            _right_but(lambda evidence: sent(evidence, "bytes in all") > 3 * _SIZE_BYTES),
        ),
        Mistake(
            "star",
            "Right, and the root does all the sending: n - 1 messages through one port, one after the other. After the "
            "first message two ranks have the tensor. Let both of them send.",
            _star,
            _right_but(lambda evidence: sent(evidence, "bytes by rank")[0] == 3 * _SIZE_BYTES),
        ),
        Mistake(
            "chain",
            "Right, and one rank works at a time: the last one waits for n - 1 messages, one after the other. Let "
            "every rank that has the tensor send in every round, to a rank that has not.",
            _chain,
            _right_but(lambda evidence: max(sent(evidence, "bytes by rank")) == _SIZE_BYTES),
        ),
        Mistake(
            "wrong-order",
            "A rank passes the tensor on before it has it, so others get its old numbers. Begin with the nearest: in "
            "the first round only rank 0 has something to send.",
            _walk(lambda n: _reaches(n)[::-1]),
        ),
        Mistake(
            "only-the-root-sends",
            "Some ranks never get the tensor: only the root sends, to ranks 1, 2, 4 and so on. The ranks that have "
            "received it must send too.",
            _only_the_root_sends,
        ),
        Mistake(
            "past-the-last-rank",
            "Right for 2 and 4 ranks. With 3, rank 1 sends to rank 3, which does not exist. Ask whether "
            "`me.rank + reach` is still below the world size.",
            _walk(_reaches, within=False),
            lambda evidence: evidence.error is not None and "3 ranks" in evidence.wrong[0].case,
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
    forbidden=("torch.distributed.broadcast", "course_lib.parallel.collectives.broadcast"),
    forbidden_example=_by_the_library,
    passed="Everybody has it after log2(n) rounds, and every rank but the first received it once.",
)
