"""04.accumulate: two steps of the answer under DDP, what is seen of them, and what is right."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.accumulate.graphs import Graphs
from course_lib.learn.exercises.lesson_04.tries import (
    ABOUT,
    EXACT,
    KEPT,
    mixed_replica,
    replica,
    reseeded,
    times_sent,
)
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, Report, fact
from course_lib.meter import Call

__all__ = ["KINDS", "TWICE", "AccumulateReport", "Pieces", "change_of", "right", "trial"]

TWICE = "three pieces, of which the last is the first one again"
KINDS = {  # by label: how many pieces, of how many examples, whether the model is the mixed one
    "four pieces": (4, 6, False),
    "one piece": (1, 6, False),
    "three pieces, tied and frozen parameters": (3, 5, True),
    TWICE: (3, 4, False),
    "five pieces": (5, 3, False),
}
_LEARNING_RATE, _CALLS = 0.5, 2  # the answer is called twice
_STALE = 0.25  # what an earlier pass has left in every gradient
NONE = "none"

Pieces = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class AccumulateReport(Report):
    """What two steps of the answer show on a rank. By the flags nobody is judged: they tell wrong answers apart."""

    asked_for = "a step"
    change: dict[str, Tensor] = fact("the change of the weights: {difference}", by=EXACT)
    num_steps: int = fact("steps of the optimizer: {difference}", by=EXACT)
    largest: int = fact("examples in the largest forward pass: {difference}", by=EXACT)
    forwards: float = fact("forward passes in a step: {difference}", by=EXACT)
    alive: int = fact(
        "forward passes, of two steps, whose activations lie in memory at a time: {difference}", by=EXACT, right=1
    )
    sent: float = fact("sent, in sizes of the gradients: {difference}", by=ABOUT)
    extra: str = fact("calls beside those for the gradients: {difference}", right=NONE)
    kept: str = fact(KEPT, right=NOTHING)
    after: str = fact("a plain step of DDP afterwards: {difference}", right="averaged")
    flag_forward: bool = False  # in the last forward pass
    flag_backward: bool = False  # in the last backward pass
    is_called: bool = False  # DDP itself


def _model(kind: str, device: torch.device | str = "cpu") -> nn.Module:
    return mixed_replica(device) if KINDS[kind][2] else replica(device)


def _pieces(kind: str, rank: int, step: int) -> Pieces:
    count, size, _ = KINDS[kind]
    draw = torch.Generator().manual_seed(31 + rank + 100 * step)
    pieces = [
        (
            torch.randn(size, 8, generator=draw, dtype=torch.float64),
            torch.randint(0, 4, (size,), generator=draw),
        )
        for _ in range(count)
    ]
    return [*pieces[:-1], pieces[0]] if kind == TWICE else pieces


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> AccumulateReport:
    from course_lib.meter.communication.recorder import Recorder

    model = _model(kind, me.device)
    with warnings.catch_warnings():  # newer PyTorch has another name for it, which older ones do not know
        warnings.simplefilter("ignore", FutureWarning)
        ddp = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=_LEARNING_RATE)
    graphs, flags = Graphs(model), _Flags(ddp)
    num_steps: list[None] = []
    optimizer.register_step_post_hook(lambda *_: num_steps.append(None))
    begin = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, _STALE) if parameter.requires_grad else None
    kept, found = Kept(model=ddp, ignore=("weights", "gradients", "buffers")), ""
    with Recorder(me.rank) as recorder:
        seed = torch.initial_seed()
        for step in range(_CALLS):
            pieces = [(x.to(me.device), y.to(me.device)) for x, y in _pieces(kind, me.rank, step)]
            pieces[-1] = pieces[0] if kind == TWICE else pieces[-1]  # one tuple, and not another one that is equal
            kept_pieces = Kept(pieces=pieces)
            answer(ddp, optimizer, pieces)
            found = found or kept_pieces.changes() or reseeded(seed)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads_bytes = sum(parameter.nbytes for parameter in learning)
    return AccumulateReport(
        **flags.facts,
        change={name: p.detach().cpu() - begin[name].cpu() for name, p in model.named_parameters()},
        num_steps=len(num_steps),
        largest=max(graphs.sizes, default=0),
        forwards=len(graphs.sizes) / _CALLS,
        alive=graphs.most_alive,
        sent=times_sent(recorder.calls, _CALLS * grads_bytes),
        extra=_extra(recorder.calls, grads_bytes),
        kept=found or kept.changes() or _rates(optimizer) or _modes(graphs) or NOTHING,
        after=_plain_step(ddp, kind, me),
    )


class _Flags:
    """What DDP was told when, by hooks that go before the answer is judged."""

    def __init__(self, ddp: Any) -> None:
        self._forward: list[bool] = []
        self._backward: list[bool] = []
        ddp.register_forward_pre_hook(lambda *_: self._forward.append(ddp.require_backward_grad_sync))
        for parameter in ddp.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(
                    lambda _: self._backward.append(ddp.require_backward_grad_sync)
                )

    @property
    def facts(self) -> dict[str, bool]:
        return {
            "flag_forward": self._forward[-1:] == [True],
            "flag_backward": self._backward[-1:] == [True],
            "is_called": bool(self._forward),
        }


def _extra(calls: Sequence[Call], grads_bytes: int) -> str:
    """What went out beside whole gradients; how many bytes of those, is looked at elsewhere."""
    if barriers := sum(call.operation == "barrier" for call in calls):
        return f"{barriers} barriers in {_CALLS} steps"
    size_bytes = sum(call.size_bytes for call in calls if call.operation == "all_reduce") % grads_bytes
    return f"{size_bytes} B given to an all-reduce in {_CALLS} steps" if size_bytes else NONE


def _rates(optimizer: torch.optim.Optimizer) -> str:
    same = all(group["lr"] == _LEARNING_RATE for group in optimizer.param_groups)
    return "" if same else "the optimizer's learning rate"


def _modes(graphs: Graphs) -> str:
    if graphs.autocast:
        return "the type that the model computes in: a forward pass ran under autocast"
    return "" if all(graphs.modes) else "the model's mode: a forward pass ran in eval mode"


def _plain_step(ddp: Any, kind: str, me: Rank) -> str:
    """Whether the next backward pass, by whoever trains on, is averaged as DDP promises."""
    if not ddp.require_backward_grad_sync:
        return "not averaged"
    x, y = (part.to(me.device) for part in _pieces(kind, me.rank, _CALLS)[0])
    ddp.zero_grad()
    F.cross_entropy(ddp(x), y).backward()
    mine = torch.cat([p.grad.flatten() for p in ddp.parameters() if p.grad is not None])
    all_ranks = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(all_ranks, mine)
    return "averaged" if all(torch.allclose(mine, other) for other in all_ranks) else "not averaged"


# -- what is right ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def change_of(kind: str, world_size: int, scale: float = 1.0) -> dict[str, Tensor]:
    """The change of the weights; ``scale`` makes all gradients too long."""
    model = _model(kind)
    begin = copy.deepcopy(model)
    for step in range(_CALLS):
        model.zero_grad()
        for x, y in _all_pieces(kind, world_size, step):
            (F.cross_entropy(model(x), y) * scale / (KINDS[kind][0] * world_size)).backward()
        with torch.no_grad():  # plain SGD by hand: the first optimizer of a process imports the compiler
            for parameter in model.parameters():
                parameter.sub_(0 if parameter.grad is None else _LEARNING_RATE * parameter.grad)
    return {name: p.detach() - begin.get_parameter(name).detach() for name, p in model.named_parameters()}


def _all_pieces(kind: str, world_size: int, step: int) -> Iterator[tuple[Tensor, Tensor]]:
    for rank in range(world_size):
        yield from _pieces(kind, rank, step)


def right(kind: str) -> Callable[[int, int], AccumulateReport]:
    def expected(rank: int, world_size: int) -> AccumulateReport:
        count, size, _ = KINDS[kind]
        return AccumulateReport(
            change=change_of(kind, world_size),
            num_steps=_CALLS,
            largest=size,
            forwards=float(count),
            sent=round(2 * (world_size - 1) / world_size, 1),
        )

    return expected
