"""06.backward: parts on ranks, the learner's step on each of them, what is seen of it, and what is right."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.accumulate.graphs import Graphs
from course_lib.learn.exercises.lesson_04.tries import EXACT, KEPT
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, Report, fact

__all__ = ["KINDS", "BackwardReport", "right", "trial"]

NONE = "there is none"
_PLAIN, _AGAIN = "one batch", "a second batch, gradients not cleared"
_TOKENS = "batches of tokens, BatchNorm, frozen and tied parameters"
KINDS = {_PLAIN: 1, _AGAIN: 2, _TOKENS: 2}  # how many batches
_WIDTH, _BATCH = 6, 5
_WORDS, _LENGTH, _FEW = 11, 4, 3  # of the batches of tokens
_SHAPES = {_PLAIN: (_BATCH, _WIDTH), _AGAIN: (_BATCH, _WIDTH), _TOKENS: (_FEW, _LENGTH, _WIDTH)}


@dataclass(frozen=True, kw_only=True)
class BackwardReport(Report):
    """What a rank has afterwards. ``gradients``: by name, a word where there is none."""

    asked_for = "a step"
    loss: Any = fact("the loss: {difference}", by=EXACT)
    gradients: dict[str, Tensor | str] = fact("the gradients: {difference}", by=EXACT)
    num_messages: int = fact("messages sent: {difference}", by=EXACT)
    num_bytes: int = fact("bytes sent: {difference}", by=EXACT)
    forwards: int = fact("forward passes of the part: {difference}", by=EXACT)
    held: int = fact("graphs that still hold activations afterwards: {difference}", by=EXACT, right=0)
    kept: str = fact(KEPT, right=NOTHING)


class _Block(nn.Module):
    """A part in the middle: a matrix that is used twice, a frozen bias, BatchNorm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm = nn.Linear(_WIDTH, _WIDTH), nn.BatchNorm1d(_LENGTH)
        self.again, self.drop = nn.Linear(_WIDTH, _WIDTH), nn.Dropout(0.0)
        self.again.weight = self.mix.weight
        self.mix.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.again(torch.tanh(self.norm(self.mix(x)))))


def _parts(kind: str, num_ranks: int) -> list[nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        if kind != _TOKENS:
            return [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()).double() for _ in range(num_ranks)]
        inner: list[nn.Module] = [nn.Sequential(_Block()) for _ in range(num_ranks - 2)]
        first, last = nn.Embedding(_WORDS, _WIDTH), nn.Sequential(_Block(), nn.Linear(_WIDTH, _WORDS))
        return [part.double() for part in (nn.Sequential(first, _Block()), *inner, last)]


def _batch(kind: str, number: int) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(number)
    if kind == _TOKENS:
        x, y = (torch.randint(0, _WORDS, (_FEW, _LENGTH), generator=made) for _ in range(2))
    else:
        x, y = (torch.randn(_SHAPES[kind], generator=made, dtype=torch.float64) for _ in range(2))
    return x, y


def _loss(kind: str) -> Callable[[Tensor, Tensor], Tensor]:
    if kind == _TOKENS:
        return lambda output, target: F.cross_entropy(output.flatten(0, 1), target.flatten())
    return F.mse_loss


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    """What a rank runs: the answer on this rank's part, batch by batch; then its loss and its gradients."""
    from course_lib.meter.communication.recorder import Recorder

    part = _parts(kind, me.world_size)[me.rank].to(me.device)
    is_first, is_last = me.rank == 0, me.rank == me.world_size - 1
    graphs, found, loss, held = Graphs(part), "", None, 0
    kept = Kept(part=part, ignore=("gradients", "buffers"))
    with Recorder(me.rank) as recorder:
        for number in range(KINDS[kind]):
            x, y = (tensor.to(me.device) for tensor in _batch(kind, number))
            kept_batch = Kept(x=x, target=y)
            room = torch.full(_SHAPES[kind], torch.nan, dtype=torch.float64, device=me.device)
            given = (x if is_first else None, y if is_last else None)
            loss = answer(me, part, *given, _loss(kind), room)
            if loss is ...:
                return loss
            held = max(held, graphs.num_alive)
            found = found or kept_batch.changes()
    return BackwardReport(
        loss=_number(loss),
        gradients=_gradients(part),
        num_messages=sum(call.num_messages for call in recorder.calls),
        num_bytes=sum(sum(call.sent_bytes.values()) for call in recorder.calls),
        forwards=len(graphs.sizes),
        held=held,
        kept=found or kept.changes() or NOTHING,
    )


def _number(loss: Any) -> Any:
    """A loss as a number, whatever holds it; anything else in words."""
    if loss is None or isinstance(loss, numbers.Real):
        return loss
    try:
        return float(loss.item())
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return f"no number: {short(loss)}"


def _gradients(part: nn.Module) -> dict[str, Tensor | str]:
    return {name: NONE if p.grad is None else p.grad.detach().cpu().clone() for name, p in part.named_parameters()}


# -- what is right ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _on_one_device(kind: str, num_ranks: int) -> tuple[list[dict[str, Tensor | str]], float]:
    """The gradients of every part and the last loss, of a model in one piece."""
    parts, last_loss = _parts(kind, num_ranks), 0.0
    for number in range(KINDS[kind]):
        x, y = _batch(kind, number)
        loss = _loss(kind)(nn.Sequential(*parts)(x), y)
        loss.backward()
        last_loss = loss.item()
    return [_gradients(part) for part in parts], last_loss


def right(kind: str) -> Callable[[int, int], BackwardReport]:
    def expected(rank: int, num_ranks: int) -> BackwardReport:
        gradients, loss = _on_one_device(kind, num_ranks)
        num_messages = KINDS[kind] * ((rank < num_ranks - 1) + (rank > 0))
        return BackwardReport(
            loss=loss if rank == num_ranks - 1 else None,
            gradients=gradients[rank],
            num_messages=num_messages,
            num_bytes=8 * torch.Size(_SHAPES[kind]).numel() * num_messages,
            forwards=KINDS[kind],
        )

    return expected
