"""04.accumulate: one step over several pieces of a batch, with one all-reduce; the clinic's line, mended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster import Rank
from course_lib.learn.compare import close_to
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.tries import (
    all_got,
    replica,
    times_sent,
    weights,
)
from course_lib.learn.judge import by_trial

__all__ = ["ACCUMULATE"]

_LEARNING_RATE = 0.5
_STEPS, _PIECE = 2, 6  # the answer is called twice, on pieces of six examples
_SENT = "sent, in sizes of the gradients"
_CHANGE = "the change of the weights"
_LARGEST = "examples in the largest forward pass"
_FLAG = "the flag in the last backward pass"  # these tell wrong answers apart; nobody is judged by them
_CALLED = "DDP itself was called"

Pieces = list[tuple[Tensor, Tensor]]


def _pieces(rank: int, count: int) -> Pieces:
    draw = torch.Generator().manual_seed(31 + rank)
    return [
        (
            torch.randn(_PIECE, 8, generator=draw, dtype=torch.float64),
            torch.randint(0, 4, (_PIECE,), generator=draw),
        )
        for _ in range(count)
    ]


def _trial(answer: Callable[..., Any], me: Rank, count: int) -> dict[str, Any]:
    from course_lib.meter.recorder import Recorder

    model = replica(me.device)
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=_LEARNING_RATE)
    before, pieces = weights(model), _pieces(me.rank, count)
    flags: list[bool] = []
    sizes: list[int] = []
    called: list[bool] = []
    model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    ddp.register_forward_pre_hook(lambda *_: called.append(True))
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: flags.append(ddp.require_backward_grad_sync))
    with Recorder(me.rank) as recorder:
        for _ in range(_STEPS):
            answer(ddp, optimizer, [(x.to(me.device), y.to(me.device)) for x, y in pieces])
    return {
        _FLAG: flags[-1:] == [True],
        _CALLED: bool(called),
        _CHANGE: weights(model) - before,
        _SENT: times_sent(recorder.calls, _STEPS * sum(parameter.nbytes for parameter in model.parameters())),
        _LARGEST: max(sizes, default=0),
    }


def _compare(expected: dict[str, Any], got: Any) -> str:
    """What the case expects, and nothing else that came."""
    wanted = {name: got[name] for name in expected if name in got} if isinstance(got, dict) else got
    return close_to(1e-9, 1e-12)(expected, wanted)


def _right(count: int) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        model = replica()
        before = weights(model)
        pieces = [piece for each in range(world_size) for piece in _pieces(each, count)]
        x, y = (torch.cat(parts) for parts in zip(*pieces, strict=True))
        optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        sent = round(2 * (world_size - 1) / world_size, 1)
        return {_CHANGE: weights(model) - before, _SENT: sent, _LARGEST: _PIECE}

    return expected


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _step(
    *,
    syncs: Callable[[int, int], bool] = lambda index, count: index == count - 1,
    flag_after_forward: bool = False,
    divide: bool = True,
    steps_inside: bool = False,
    clears: bool = True,
    clears_inside: bool = False,
) -> Callable[..., None]:
    """The step, right but for what the arguments change. ``syncs(index, count)``: whether a piece is averaged."""

    def take(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
        if clears:
            optimizer.zero_grad()
        for index, (x, y) in enumerate(pieces):
            if clears_inside:
                optimizer.zero_grad()
            sync = syncs(index, len(pieces))
            if not flag_after_forward:
                ddp.require_backward_grad_sync = sync
            loss = F.cross_entropy(ddp(x), y) / (len(pieces) if divide else 1)
            ddp.require_backward_grad_sync = sync
            loss.backward()
            if steps_inside:
                optimizer.step()
        if not steps_inside:
            optimizer.step()
        ddp.require_backward_grad_sync = True

    return take


def _flag_too_late(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """The clinic's code: the last piece's forward pass has run when the flag is set."""
    optimizer.zero_grad()
    ddp.require_backward_grad_sync = False
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        ddp.require_backward_grad_sync = index == len(pieces) - 1
        loss.backward()
    optimizer.step()


def _no_sync_around_backward(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        with ddp.no_sync() if index < len(pieces) - 1 else contextlib.nullcontext():
            loss.backward()
    optimizer.step()


def _bare_model(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    for x, y in pieces:
        (F.cross_entropy(ddp.module(x), y) / len(pieces)).backward()
    optimizer.step()


def _all_at_once(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    x, y = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    optimizer.zero_grad()
    F.cross_entropy(ddp(x), y).backward()
    optimizer.step()


def _pieces_averaged(evidence: Evidence, low: float, high: float) -> bool:
    """Whether on two ranks, where a gradient that is averaged is sent once, so many were."""
    sent = [o.got[_SENT] for o in evidence.outcomes if o.case.startswith("four") and o.case.endswith("of 2")]
    return evidence.error is None and all(low <= times <= high for times in sent)


ACCUMULATE = Exercise(
    name="04.accumulate",
    title="One step over several pieces, one all-reduce",
    judge=by_trial(
        (2, 4),
        (Case("four pieces", (4,), _right(4)), Case("one piece", (1,), _right(1))),
        _trial,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "never-averaged",
            "Nothing was sent: every piece ran without synchronisation, the last one too, and the replicas have gone "
            "different ways. The last piece must run with it, forward and backward.",
            _step(syncs=lambda index, count: False),
            lambda evidence: _pieces_averaged(evidence, 0.0, 0.1) and not any(all_got(evidence, _FLAG)),
        ),
        Mistake(
            "calls-the-bare-model",
            "Nothing was sent: `ddp.module` is the bare model, and DDP never heard of these passes. Call `ddp(x)`.",
            _bare_model,
            lambda evidence: evidence.error is None and not any(all_got(evidence, _CALLED)),
        ),
        Mistake(
            "flag-too-late",
            "Nothing was sent, and no error told you: the replicas differ. DDP reads the flag in its *forward* pass, "
            "where it prepares the hooks; the last piece's forward pass had run before you set it. Decide before the "
            "forward pass, or put both passes under `no_sync()`.",
            _flag_too_late,
            lambda evidence: _pieces_averaged(evidence, 0.0, 0.1),
        ),
        Mistake(
            "averages-the-first-piece",
            "One piece was averaged, and it was not the last one: what came after it was added on each rank alone, so "
            "the replicas differ. Let the *last* piece do it: its all-reduce carries the sum of all pieces.",
            _step(syncs=lambda index, count: index == 0),
        ),
        Mistake(
            "steps-inside",
            "You took a step after each piece. Clear once, add up all pieces, step once.",
            _step(steps_inside=True),
        ),
        Mistake(
            "never-clears",
            "The first step is right. In the second, the gradients of the first are still there and are added: clear "
            "them, `optimizer.zero_grad()`, once for each step of the optimizer.",
            _step(clears=False),
        ),
        Mistake(
            "clears-inside",
            "You clear the gradients before each piece, so only the last piece is left of the batch. Clear once, "
            "before the first piece.",
            _step(clears_inside=True),
        ),
        Mistake(
            "all-at-once",
            "The step is right, and all pieces went through the model together: with all their activations in memory "
            "at a time. Take them one by one; that is what the pieces are for.",
            _all_at_once,
        ),
        Mistake(
            "averages-every-piece",
            "The step is right, and every piece was averaged: four times the bytes. All pieces but the last belong "
            "under `with ddp.no_sync():`, and their *forward* pass too, since that is where DDP reads the flag.",
            _no_sync_around_backward,
            lambda evidence: _pieces_averaged(evidence, 1.9, 99.0),
        ),
        Mistake(
            "sum-of-means",
            "Your gradient is too long: the means of four pieces were added. Divide each piece's loss by the number of "
            "pieces, as in lesson 01.",
            _step(divide=False),
        ),
    ),
    hints=(
        "When does DDP find out whether this backward pass is to be synchronised? Look at what stands between the flag "
        "and the forward pass.",
        "For all pieces but the last, put forward *and* backward under `with ddp.no_sync():`. The last piece goes "
        "without it.",
        "`with ddp.no_sync() if index < len(pieces) - 1 else contextlib.nullcontext():`, and inside it both "
        "`loss = F.cross_entropy(ddp(x), y) / len(pieces)` and `loss.backward()`.",
    ),
    passed="The step of the whole batch on every rank, and one all-reduce's worth of bytes for all pieces together.",
)
