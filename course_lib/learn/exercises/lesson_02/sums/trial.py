"""The build 02.all_reduce: what a trial sees on a rank. One report serves all steps; each compares what it demands."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_02.sums.cases import (
    AFTER,
    PAIR,
    UNEVEN,
    Demand,
    fewest_rounds,
    group_of,
    is_small,
    laid,
    members_of,
    part_bytes,
    sum_of,
    tensor_of,
)
from course_lib.learn.exercises.lesson_02.sums.rounds import halves_of, longest_chain, shared
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited
from course_lib.meter import Call, MemoryLedger

__all__ = ["SumCall", "SumReport", "right", "trial"]

_ENOUGH = "no more than needed"
_ITSELF = "the tensor that was handed in"
_BESIDE_BYTES = 128  # a number or an index that is a tensor
_LETS_GO_S = 0.5
_LOOKS = 3  # more calls, where one held too much


@dataclass(frozen=True)
class SumCall:
    """A call that an answer made: what it is, to or from whom, how many bytes the rank handed in, and of a number."""

    operation: str
    peer: int | None
    size_bytes: int
    item_bytes: int


def _difference(want: Any, have: Any) -> str:
    if want is None or have is None:
        return "" if have is want else f"expected {short(want)}, got {short(have)}"
    return difference(want, have, relative=1e-12, absolute=1e-12)


@dataclass(frozen=True, kw_only=True)
class SumReport(RankReport):
    """What an answer gave on a rank, and what it cost."""

    asked_for = "a sum"
    total: Any = fact("the tensor that was handed in afterwards: {difference}", by=_difference)
    around: str = fact("the sum is right, and numbers that lie between those of the tensor are {got}", right=NOTHING)
    returned: str = fact("the tensor holds the sum, and returned is {got}", right=_ITSELF)
    others: str = fact("the sum is right, and this rank called {got}, which is no message", right=NOTHING)
    sent: str = fact("the sum is right, and this rank sent {got}", right=_ENOUGH)
    messages: str = fact("the sum is right, and this rank sent {got}", right=_ENOUGH)
    extra: str = fact("the sum is right, and beside the tensor this rank held {got}", right=_ENOUGH)
    kept: str = fact("the sum is right, and after the call this rank still holds {got}", right=NOTHING)
    rounds: str = fact("the sum is right, and {got}", right=_ENOUGH)
    returned_total: Any = None  # where another tensor than the one handed in came back
    calls: tuple[SumCall, ...] = ()
    extra_bytes: int = 0


def trial(answer: Callable[..., Any], me: Rank, kind: str, demand: Demand) -> Any:
    """One call of the answer on this rank, among the ranks of ``kind``; who is not among them calls nothing."""
    from course_lib.meter.communication.recorder import Recorder

    tensor, memory = laid(kind, me.rank, me.device)
    ranks, is_large = members_of(kind, me.rank, me.world_size), not is_small(kind)
    weighs_memory = demand >= Demand.MEMORY and is_large
    calls: tuple[Call, ...] = ()
    returned, begun, extra_bytes, kept_bytes = tensor, NOTHING, 0, 0
    if kind == AFTER:
        _in_a_pair(answer, me)
    with group_of(kind, me) as group:
        if ranks:
            with ExitStack() as watching:
                recorder = watching.enter_context(Recorder(me.rank))
                ledger = watching.enter_context(MemoryLedger(inputs=(tensor,))) if weighs_memory else None
                before = ledger.now().total_bytes if ledger else 0
                returned = answer(me, tensor) if group is None else answer(me, tensor, group)
            begun, calls = first_unwaited(), recorder.calls
            extra_bytes = max(0, ledger.peak().total_bytes - before) if ledger else 0
            kept_bytes = _kept_bytes(ledger, before) if ledger else 0
        found = tensor.detach().cpu().clone()
        if weighs_memory:
            limit_bytes = part_bytes(kind, len(ranks) or 1) + _BESIDE_BYTES
            if _on_any_rank(me, extra_bytes > limit_bytes) and not _on_any_rank(me, begun != NOTHING):
                more = [_extra_bytes(answer, me, kind, group) for _ in range(_LOOKS) if ranks]
                extra_bytes = min([extra_bytes, *more])
        chain = longest_chain(_of_group(shared(me, halves_of(calls)), ranks)) if demand >= Demand.LATENCY else 0
    if returned is ...:
        return ...
    is_itself = returned is tensor
    return SumReport(
        unwaited=begun,
        total=found if ranks else None,
        around="other ones since" if memory is not tensor and bool((memory[:, 1::2] != -7.0).any()) else NOTHING,
        returned=_ITSELF if is_itself else short(returned),
        others=next((call.operation for call in calls if not call.is_message), NOTHING),
        kept=f"{kept_bytes:,} bytes" if kept_bytes > _BESIDE_BYTES else NOTHING,
        **_weighed(kind, demand, len(ranks), calls, extra_bytes, chain),
        returned_total=None if is_itself or not isinstance(returned, Tensor) else returned.detach().cpu().clone(),
        calls=tuple(SumCall(one.operation, one.peer, one.size_bytes, _item_bytes(one)) for one in calls),
        extra_bytes=extra_bytes,
    )


def _in_a_pair(answer: Callable[..., Any], me: Rank) -> None:
    """A call before the one that counts: of another size, by two ranks of the job."""
    with group_of(PAIR, me) as group:
        if group is not None:
            answer(me, tensor_of(UNEVEN, me.rank).to(me.device), group)


def _on_any_rank(me: Rank, here: bool) -> bool:
    """Whether it is so on some rank. All ranks call it."""
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    own, rooms = torch.tensor([int(here)]), [torch.zeros(1, dtype=torch.int64) for _ in others]
    messages = [send(own, rank) for rank in others]
    exchange([*messages, *(recv(room, rank) for room, rank in zip(rooms, others, strict=True))])
    return here or any(bool(room) for room in rooms)


def _extra_bytes(answer: Callable[..., Any], me: Rank, kind: str, group: Any) -> int:
    """What the answer holds beside the tensor in one more call.

    Whoever looks where a rank stands holds a message for a moment, and with it a room that the answer has let go: of
    several calls the least counts.
    """
    tensor, _ = laid(kind, me.rank, me.device)
    with MemoryLedger(inputs=(tensor,)) as ledger:
        before = ledger.now().total_bytes
        answer(me, tensor) if group is None else answer(me, tensor, group)
    return max(0, ledger.peak().total_bytes - before)


def _kept_bytes(ledger: MemoryLedger, before: int) -> int:
    """What the call has made and not let go: gloo's threads let go a moment later, and a cycle when it is found."""
    deadline = time.monotonic() + _LETS_GO_S
    while (kept := ledger.now().total_bytes - before) > _BESIDE_BYTES and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return max(0, kept)


def _of_group(halves: dict[int, Any], ranks: tuple[int, ...]) -> dict[int, Any]:
    return {rank: halves[rank] for rank in ranks}


def _item_bytes(call: Call) -> int:
    return getattr(torch, call.dtype).itemsize if call.dtype else 0


def _weighed(
    kind: str, demand: Demand, num_ranks: int, calls: tuple[Call, ...], extra_bytes: int, chain: int
) -> dict[str, str]:
    """What is more than the step lets an answer have, in words by field; nothing that it does not demand."""
    if not num_ranks:
        return {}
    found = {}
    sent_bytes = sum(sum(call.sent_bytes.values()) for call in calls)
    num_sent = sum(call.operation == "send" for call in calls)
    part, steps = part_bytes(kind, num_ranks), 2 * (num_ranks - 1)
    rounds = fewest_rounds(num_ranks)
    if not is_small(kind):
        if demand >= Demand.BYTES and sent_bytes > steps * part:
            found["sent"] = f"{sent_bytes:,} bytes, where {steps * part:,} will do"
        if demand >= Demand.MEMORY and num_sent > steps:
            found["messages"] = f"{num_sent} messages, where {steps} will do"
        if demand >= Demand.MEMORY and extra_bytes > part + _BESIDE_BYTES:
            found["extra"] = f"{extra_bytes:,} bytes at once, where one part, {part:,} bytes, will do"
    elif demand >= Demand.LATENCY:
        if num_sent > rounds:
            found["messages"] = f"{num_sent} messages for a small tensor, where {rounds} will do"
        if chain > 2 * rounds:
            found["rounds"] = f"{chain} messages follow one another for a small tensor, where {2 * rounds} will do"
    return found


def right(kind: str) -> Callable[[int, int], SumReport]:
    """What is expected of a rank."""

    def expected(rank: int, world_size: int) -> SumReport:
        ranks = members_of(kind, rank, world_size)
        return SumReport(total=sum_of(kind, ranks) if ranks else None)

    return expected
