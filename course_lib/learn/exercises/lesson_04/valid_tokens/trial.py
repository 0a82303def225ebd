"""04.valid_tokens: two steps of the answer under PyTorch's DDP, and what is seen of them on each rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.accumulate.graphs import Graphs
from course_lib.learn.exercises.lesson_04.tries import gradients_by_name, reseeded
from course_lib.learn.exercises.lesson_04.valid_tokens.cases import STEPS, gradient, make_model, pairs_of, part_of_loss
from course_lib.learn.judging.compare import close_to, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited
from course_lib.meter import Call

__all__ = ["NO_NUMBER", "PlainNumber", "TokenReport", "right", "trial"]

NO_NUMBER, _FEW = "nothing", "no more than DDP's own and a small one"
_MOST_CALLS, _TINY_BYTES = 2, 64  # in a step
_CLOSE = close_to(1e-5, 1e-9)  # a factor of float32 is exact enough


def _by_step(expected: Sequence[dict[str, Tensor]], got: Sequence[dict[str, Any]]) -> str:
    for step, (want, have) in enumerate(zip(expected, got, strict=False)):
        if found := _CLOSE(want, have):
            return f"the gradients of step {step + 1}: {found}"
    return ""


class PlainNumber(float):
    """A part of the loss that came as a number of Python, and as no tensor."""


def _by_part(expected: Sequence[float], got: Sequence[Any]) -> str:
    wrong = next((found for want, have in zip(expected, got, strict=False) if (found := _CLOSE(want, have))), "")
    if not wrong and any(isinstance(have, PlainNumber) for have in got):
        return "it is a number of Python, and no tensor"
    return wrong


@dataclass(frozen=True, kw_only=True)
class TokenReport(RankReport):
    """What an answer left on a rank in two steps, and what it sent."""

    asked_for = "two steps"
    kept: str = fact("your code changed what was to stay: {got}", right=NOTHING)
    gradients: Any = fact("{difference}", by=_by_step)
    sent: int = fact("the gradients are right, and in a step this rank sent {got} times their bytes", right=1)
    calls: str = fact("the gradients are right, and in a step this rank made {got}", right=_FEW)
    forwards: Any = fact(
        "the gradients are right, after {got} forward passes in two steps for {expected} micro-batches"
    )
    alive: int = fact(
        "the gradients are right, and the activations of {got} micro-batches lay in memory at once", right=1
    )
    parts: Any = fact("the gradients are right, and this rank's part of the loss is not: {difference}", by=_by_part)
    graph: bool = fact("what came back still has a graph", right=False)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    ddp = _warm_ddp(me)
    graphs, kept, found = Graphs(ddp.module), Kept(model=ddp, ignore=("gradients",)), ""
    size_bytes, seed = sum(p.nbytes for p in ddp.parameters()), torch.initial_seed()
    gradients: list[dict[str, Any]] = []
    parts: list[Any] = []
    calls: list[Sequence[Call]] = []
    for step in range(STEPS):
        ddp.zero_grad()
        pairs = [tuple(one.to(me.device, copy=True) for one in pair) for pair in pairs_of(kind, *_of(me), step)]
        kept_pairs = Kept(micro_batches=pairs)
        with Recorder(me.rank) as recorder:
            parts.append(answer(me, ddp, pairs))
        if parts[-1] is ...:
            return ...
        found = found or kept_pairs.changes() or reseeded(seed)
        calls.append(recorder.calls)
        gradients.append(gradients_by_name(ddp.module))
        if sum(call.size_bytes for call in recorder.calls) < size_bytes:
            break  # the others may wait for these gradients; the next count is not to meet them
    begun, flag = first_unwaited(), "" if ddp.require_backward_grad_sync else "DDP is left without synchronisation"
    return TokenReport(
        unwaited=begun,
        gradients=gradients,
        sent=max(sum(call.size_bytes for call in one) // size_bytes for one in calls),
        calls=next(filter(None, (_too_much(one, size_bytes) for one in calls)), _FEW),
        forwards=len(graphs.sizes),
        alive=graphs.most_alive,
        parts=[_number(part) for part in parts],
        graph=any(isinstance(part, Tensor) and part.requires_grad for part in parts),
        kept=found or kept.changes() or flag or NOTHING,
    )


def _of(me: Rank) -> tuple[int, int]:
    return me.rank, me.world_size


def _warm_ddp(me: Rank) -> nn.parallel.DistributedDataParallel:
    """After two steps: in the second DDP makes its buckets anew, which takes messages of its own."""
    ddp = nn.parallel.DistributedDataParallel(make_model().to(me.device), broadcast_buffers=False)
    for _ in range(2):
        ddp(torch.zeros(1, 1, dtype=torch.long, device=me.device)).sum().backward()
    return ddp


def _too_much(calls: Sequence[Call], size_bytes: int) -> str:
    """What a step sent beside the gradients, where that is more than one small call."""
    besides = sum(call.size_bytes for call in calls) % size_bytes
    if len(calls) > _MOST_CALLS:
        return f"{len(calls)} calls; the gradients' and one small one are enough"
    return f"a call of {besides} bytes beside the gradients; one number is enough" if besides > _TINY_BYTES else ""


def _number(part: Any) -> Any:
    if isinstance(part, Tensor) and part.numel() == 1:
        return float(part.detach())
    is_number = isinstance(part, int | float) and not isinstance(part, bool)
    return PlainNumber(part) if is_number else NO_NUMBER if part is None else short(part)


def right(kind: str) -> Callable[[int, int], TokenReport]:
    def expected(rank: int, num_ranks: int) -> TokenReport:
        return TokenReport(
            gradients=[gradient(kind, num_ranks, step) for step in range(STEPS)],
            forwards=sum(len(pairs_of(kind, rank, num_ranks, step)) for step in range(STEPS)),
            parts=[part_of_loss(kind, rank, num_ranks, step) for step in range(STEPS)],
        )

    return expected
