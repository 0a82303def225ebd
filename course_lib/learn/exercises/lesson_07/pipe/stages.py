"""07.pipe: stages that note what is done with them, in which order, what has set out by then, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["RAN_OUT", "Watch", "WatchedStage", "loss_of"]

RAN_OUT = "the paper ran out"  # what a stage says that fails
_LATE_S = 0.01
Place = tuple[int, int]  # stage, micro-batch


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """The mean over all samples. The first number of a row is that of its micro-batch, and is no part of it."""
    return (output[:, 1:] - target).square().mean()


class Watch:
    """What the stages of a rank have noted. ``num_sent()`` is how many messages of this rank have set out by now."""

    def __init__(self, num_sent: Callable[[], int] = lambda: 0) -> None:
        self.num_sent = num_sent
        self.fails: tuple[str, int, int] | None = None  # "F" or "back", stage, micro-batch
        self.events: list[tuple[str, int, int]] = []  # F, back (a backward begins), in, weights
        self.sent_at: list[int] = []  # for each event
        # For each F, before it makes anything: micro-batches of whose forward something is kept; those that are over,
        # and of which the input or the output is still there; and tensors of ``room``.
        self.kept_at: list[int] = []
        self.stale_at: list[int] = []
        self.rooms_at: list[int] = []
        self.rooms: list[StorageWeakRef] = []
        self._over: list[Place] = []
        self._inner: dict[Place, StorageWeakRef] = {}
        self._outer: dict[Place, list[StorageWeakRef]] = {}

    def note(self, kind: str, stage: int, micro_batch: int) -> None:
        """An event, and what is there at that moment."""
        place = stage, micro_batch
        if kind == "F":
            self.kept_at.append(_alive(self._inner.values()))
            self.rooms_at.append(_alive(self.rooms))
            # A loop may still have the names of the last one.
            self.stale_at.append(sum(_alive(self._outer.get(one, ())) > 0 for one in self._over[:-1]))
        if kind == "weights" and place not in self._over:
            self._over.append(place)
        self.events.append((kind, *place))
        self.sent_at.append(self.num_sent())
        if (kind, *place) == self.fails:
            raise ValueError(f"{RAN_OUT} in micro-batch {micro_batch}")

    def keep(self, place: Place, inner: Tensor, outer: list[Tensor]) -> None:
        """Remember weakly what a forward has made, and what came in and goes out."""
        self._inner[place] = StorageWeakRef(inner.untyped_storage())
        self._outer[place] = [StorageWeakRef(one.untyped_storage()) for one in outer]

    def left(self) -> str:
        """What is still there, in words."""
        found = {
            "what forwards keep": _alive(self._inner.values()),
            "inputs or outputs": sum(_alive(refs) > 0 for refs in self._outer.values()),
            "tensors of `room`": _alive(self.rooms),
        }
        return ", ".join(f"{name} ({count})" for name, count in found.items() if count) or "nothing"

    def begin(self) -> None:
        """A step begins: forget the one before."""
        for noted in (self.events, self.sent_at, self.kept_at, self.rooms_at, self.stale_at, self.rooms, self._over):
            noted.clear()
        for held in (self._inner, self._outer):
            held.clear()


def _alive(refs: Any) -> int:
    return sum(not ref.expired() for ref in refs)


class WatchedStage(nn.Module):
    """(rows, 1 + width) -> (rows, 1 + width of the next): two layers. The first number of a row goes through as it is.

    It is the number of the micro-batch. What comes into stage 0 is the caller's, and may stay.
    """

    def __init__(self, number: int, widths: tuple[int, int], dtypes: tuple[torch.dtype, torch.dtype]) -> None:
        super().__init__()
        entering, leaving = widths
        self.number, self.gives, self.watch, self.is_late = number, dtypes[1], Watch(), False
        self.first = nn.Linear(entering, 6, dtype=dtypes[0])
        self.last = nn.Linear(6, leaving, dtype=dtypes[0])

    def forward(self, x: Tensor) -> Tensor:
        place = self.number, round(float(x.detach()[0, 0]))
        if self.is_late:
            time.sleep(_LATE_S)
        self.watch.note("F", *place)
        came = [] if self.number == 0 else [x]
        first, last = (self._ticked(layer.weight, "weights", place) for layer in (self.first, self.last))
        x = self._ticked(x, "in", place)
        hidden = torch.tanh(F.linear(x[:, 1:], first, self.first.bias))
        y = F.linear(hidden, last, self.last.bias)
        left = self._ticked(torch.cat([x[:, :1], y], 1).to(self.gives), "back", place)
        self.watch.keep(place, hidden, [*came, left])
        return left

    def _ticked(self, x: Tensor, kind: str, place: Place) -> Tensor:
        return _Tick.apply(x, partial(self.watch.note, kind, *place))


class _Tick(torch.autograd.Function):
    """The identity, whose backward calls ``note()``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, note: Callable[[], None]) -> Tensor:
        ctx.note = note
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.note()
        return gradients[0], None
