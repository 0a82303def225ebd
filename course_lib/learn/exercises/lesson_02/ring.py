"""02.ring: an all-reduce around a ring, judged by its values and by what it sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster import exchange, recv, send
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_02.costs import CostJudge, sent, values_are_right
from course_lib.learn.judge import RankJudge
from course_lib.meter import Communication, expect

__all__ = ["RING"]

_NUM_NUMBERS = 24  # divides by 2, 3 and 4
_SIZE_BYTES = 8 * _NUM_NUMBERS
_EVEN, _UNEVEN = f"{_NUM_NUMBERS} numbers", "11 numbers, which no ring of 2, 3 or 4 divides"


def _numbers(rank: int, count: int) -> torch.Tensor:
    return (torch.arange(count) + 1) * 1_000_003**rank % 999_983 + rank


def _case(label: str, count: int) -> Case:
    return Case(
        label,
        lambda rank, n: (_numbers(rank, count),),
        lambda rank, n: sum((_numbers(r, count) for r in range(1, n)), _numbers(0, count)),
    )


def _weigh(communication: Communication) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    n = communication.world_size
    ranks = range(n)
    wanted = {"bytes by rank": [2 * (n - 1) * _SIZE_BYTES // n] * n, "messages by rank": [2 * (n - 1)] * n}
    got = {
        "bytes by rank": [communication.sent_bytes(rank) for rank in ranks],
        "messages by rank": [communication.num_messages(rank) for rank in ranks],
        "receivers": [[to for to in ranks if communication.matrix()[rank][to]] for rank in ranks],
    }
    wrong = expect(communication, sent_bytes=wanted["bytes by rank"], num_messages=wanted["messages by rank"])
    for rank, receivers in enumerate(got["receivers"]):
        if len(receivers) > 1 and not wrong:
            names = ", ".join(map(str, receivers))
            wrong = [f"rank {rank} sent to ranks {names}; in a ring a rank sends to one neighbour alone."]
    return wanted, got, " ".join(wrong)


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _ring(
    *,
    adds: bool = True,
    second_lap: bool = True,
    adds_in_second: bool = False,
    extra: int = 0,
    same_part: bool = False,
    cut: Callable[[torch.Tensor, int], Any] = lambda tensor, n: tensor.tensor_split(n),
    split_messages: bool = False,
) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """A ring, right but for what the arguments change."""

    def all_reduce(me: Any, tensor: torch.Tensor) -> torch.Tensor:
        n, parts = me.world_size, cut(tensor, me.world_size)
        after, before = (me.rank + 1) % n, (me.rank - 1) % n

        def swap(give: torch.Tensor, take: torch.Tensor) -> None:
            for piece, room in zip(
                *(t.tensor_split(2) if split_messages else (t,) for t in (give, take)), strict=True
            ):
                exchange([send(piece, after), recv(room, before)])

        for step in range(n - 1 + extra):
            give, own = parts[(me.rank - step) % n], parts[(me.rank - step - (0 if same_part else 1)) % n]
            arrived = torch.empty_like(own if not same_part else parts[(me.rank - step - 1) % n])
            swap(give, arrived)
            if arrived.shape == own.shape:
                own.copy_(own + arrived if adds else arrived)
        for step in range(n - 1 if second_lap else 0):
            give, room = (
                parts[(me.rank + 1 - step) % n],
                parts[(me.rank - step) % n],
            )
            arrived = torch.empty_like(room)
            swap(give, arrived)
            room.copy_(room + arrived if adds_in_second else arrived)
        return tensor

    return all_reduce


def _whole_tensors_around(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    n, total, going = me.world_size, tensor.clone(), tensor
    for _ in range(n - 1):
        arrived = torch.empty_like(going)
        exchange([send(going, (me.rank + 1) % n), recv(arrived, (me.rank - 1) % n)])
        total += arrived
        going = arrived
    return total


def _through_one_rank(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    others = range(1, me.world_size)
    if me.rank:
        exchange([send(tensor, 0)])
        exchange([recv(tensor, 0)])
        return tensor
    rooms = [torch.empty_like(tensor) for _ in others]
    exchange([recv(room, rank) for rank, room in zip(others, rooms, strict=True)])
    tensor += sum(rooms)
    exchange([send(tensor, rank) for rank in others])
    return tensor


def _knows_the_inputs(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    return sum((_numbers(rank, len(tensor)) for rank in range(1, me.world_size)), _numbers(0, len(tensor)))


def _straight_to_owners(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Each part straight to the rank that sums it up, and the sums straight to everybody: no ring, same bytes."""
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    others = [rank for rank in range(n) if rank != me.rank]
    rooms = [torch.empty_like(parts[me.rank]) for _ in others]
    messages = [send(parts[rank], rank) for rank in others]
    exchange([*messages, *(recv(room, rank) for room, rank in zip(rooms, others, strict=True))])
    parts[me.rank].copy_(parts[me.rank] + sum(rooms))
    messages = [send(parts[me.rank], rank) for rank in others]
    exchange([*messages, *(recv(parts[rank], rank) for rank in others)])
    return tensor


def _by_the_library(me: Any, tensor: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(tensor)
    return tensor


def _right_but(check: Callable[[list[int]], bool]) -> Callable[[Evidence], bool]:
    """Recognises right values whose bytes by rank, on 4 ranks, are as ``check`` says."""
    return lambda evidence: values_are_right(evidence) and check(sent(evidence, "bytes by rank"))


RING = Exercise(
    name="02.ring",
    title="An all-reduce around a ring",
    judge=CostJudge(
        RankJudge((4, 2, 3), (_case(_EVEN, _NUM_NUMBERS), _case(_UNEVEN, 11)), timeout_s=5.0),
        {_EVEN: _weigh},
    ),
    mistakes=(
        Mistake(
            "through-one-rank",
            "The sum is right, and it all goes through one rank: rank 0 sends the whole tensor to everybody, which is "
            "`n - 1` times the tensor, while the others wait for it. In a ring every rank sends the same, "
            "2 (n - 1)/n of the tensor.",
            _through_one_rank,
            _right_but(lambda sizes: max(sizes) >= 3 * _SIZE_BYTES and min(sizes) <= _SIZE_BYTES),
        ),
        Mistake(
            "gathers-everything",
            "The sum is right, and too much is sent: whole tensors travel, so every rank sends `n - 1` times the "
            "tensor. That grows with every rank you add. Send one part in each step, and pass on *sums*: what has "
            "been added need not travel again.",
            _whole_tensors_around,
            lambda evidence: (
                values_are_right(evidence)
                and min(sent(evidence, "bytes by rank")) >= 3 * _SIZE_BYTES
                and sent(evidence, "bytes by rank")[0] == sent(evidence, "messages by rank")[0] * _SIZE_BYTES
            ),
        ),
        Mistake(
            "moves-too-little",
            "The values agree here, but less was sent than any all-reduce can do with: each rank has to send at least "
            "2 (n - 1)/n of the tensor. Either numbers were cut short on the way, or this answer knows what the others "
            "hold without being told.",
            _knows_the_inputs,
            _right_but(lambda sizes: sum(sizes) < 6 * _SIZE_BYTES),
        ),
        Mistake(
            "no-ring",
            "The sum is right and the bytes are as few as they can be, but your ranks send to everybody. That is a "
            "fine algorithm, and it needs a link from each rank to each other; a ring needs one neighbour. Send to "
            "`(me.rank + 1) % n` alone.",
            _straight_to_owners,
            lambda evidence: (
                values_are_right(evidence) and any(len(to) > 1 for to in sent(evidence, "receivers"))
            ),
        ),
        Mistake(
            "too-many-messages",
            "Values and bytes are right, in more messages than needed; each message costs a latency. Send a part in "
            "one piece: 2 (n - 1) messages by each rank.",
            _ring(split_messages=True),
            lambda evidence: (
                values_are_right(evidence)
                and sent(evidence, "bytes by rank") == [6 * _SIZE_BYTES // 4] * 4
                and min(sent(evidence, "messages by rank")) > 6
            ),
        ),
        Mistake(
            "one-lap",
            "Half-way: after n - 1 steps every rank has *one* part of the sum complete. The complete parts have to go "
            "round once more, n - 1 steps, this time without adding.",
            _ring(second_lap=False),
        ),
        Mistake(
            "one-rank-in-each-part",
            "Each part of your result holds the numbers of one rank alone. Either the first lap replaces your part by "
            "what arrives, where it should add; or the second lap begins with the part of your own number, which is "
            "not complete: after n - 1 steps the complete part on rank r is the one after it, `(r + 1) % n`.",
            _ring(adds=False),
        ),
        Mistake(
            "adds-in-the-second-lap",
            "In the second lap complete sums arrive. You add them to what is there, which counts some ranks twice. "
            "In the second lap, *replace* your part by what arrives.",
            _ring(adds_in_second=True),
        ),
        Mistake(
            "one-step-too-many",
            "The first lap has one step too many: a part comes back to a rank that is in the sum already, and it is "
            "counted twice. With n ranks, n - 1 steps bring the others' numbers.",
            _ring(extra=1),
        ),
        Mistake(
            "adds-to-the-part-that-was-sent",
            "You add what arrives to the part that you sent. What arrives is the part of the rank before you, and it "
            "sent another one: the part before yours, `(me.rank - step - 1) % n`.",
            _ring(same_part=True),
        ),
        Mistake(
            "assumes-that-n-divides",
            "Right where the ranks divide the tensor, and an error where they do not. `tensor.tensor_split(n)` cuts "
            "any tensor; its parts differ by one number at most.",
            _ring(cut=lambda tensor, n: tensor.view(n, -1)),
            lambda evidence: (
                evidence.error is not None
                and evidence.error.kind not in ("RankTimeout",)
                and evidence.wrong[0].case.startswith(_UNEVEN)
            ),
        ),
        Mistake(
            "own-numbers",
            "Every rank gives back its own numbers; nothing came from the others.",
            lambda me, tensor: tensor,
        ),
    ),
    hints=(
        "Cut the tensor: `parts = tensor.tensor_split(n)`. In step 0 of the first lap, send part `me.rank` to the next "
        "rank. Which part does the rank before you send at the same time?",
        "First lap, step s: send part `(rank - s) % n`, receive part `(rank - s - 1) % n` into a buffer, add it to "
        "your part. Second lap, step s: send part `(rank + 1 - s) % n`, receive part `(rank - s) % n` in its place.",
        "One step of the first lap: `arrived = torch.empty_like(mine)`, then `exchange([send(give, after), "
        "recv(arrived, before)])`, then `mine += arrived`, with give = parts[(me.rank - step) % n] and "
        "mine = parts[(me.rank - step - 1) % n].",
    ),
    forbidden=(
        "torch.distributed.all_reduce",
        "torch.distributed.reduce_scatter_tensor",
        "torch.distributed.reduce_scatter",
        "torch.distributed.all_gather",
        "torch.distributed.all_gather_into_tensor",
        "torch.distributed.broadcast",
        "course_lib.parallel.collectives.all_reduce",
    ),
    forbidden_example=_by_the_library,
    passed="The sum is right on 2, 3 and 4 ranks, and each rank sends exactly 2 (n - 1)/n of the tensor, in 2 (n - 1) "
    "messages, to one neighbour. No all-reduce can send less.",
)
