"""A small model to try answers on, with all that makes real ones awkward, and an eye on how it is run."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["HeldBytes", "Watched", "batches", "small_model"]


class Dropout(nn.Dropout):
    """Drops by the number itself and not by chance: the same example loses the same values in any batch."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        return input * ((input.detach() * 997).sin() > 0) / (1 - self.p)


class HeldBytes:
    """Tensors of one kind, one a run, and how many of them somebody still holds. It holds none itself."""

    def __init__(self) -> None:
        self.most = 0  # of earlier runs, when another one began
        self._storages: list[weakref.ref[torch.UntypedStorage]] = []

    def follow(self, tensor: Tensor) -> None:
        with contextlib.suppress(NotImplementedError, RuntimeError):  # a stand-in of torch.func has no storage
            self._storages.append(weakref.ref(tensor.untyped_storage()))

    def look(self) -> None:
        """Another run begins."""
        self.most = max(self.most, self._now())

    def for_good(self) -> int:
        """How many are held now, and not in a circle that the collector finds."""
        if self._now():
            gc.collect()
        return self._now()

    def _now(self) -> int:
        return sum(storage() is not None for storage in self._storages)


class Watched(nn.Module):
    """A classifier of three classes with BatchNorm, dropout, a frozen layer and a weight that is used twice.

    It notes of each run how many examples came, which of its layers were in training mode and whether it was recorded;
    and it knows of how many runs something is still held: outputs, or activations that wait for a backward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.dropout = Dropout(0.5)
        self.mix, self.tied = nn.Linear(6, 6), nn.Linear(6, 6)
        self.tied.weight = self.mix.weight
        self.leave = nn.Linear(6, 3)
        self.runs: list[int] = []
        self.modes: list[dict[str, bool]] = []
        self.recorded = False  # in any run
        self.autocast = False  # in any run
        self.outputs, self.activations = HeldBytes(), HeldBytes()

    def forward(self, x: Tensor) -> Tensor:
        self.outputs.look()
        self.activations.look()
        self.runs.append(len(x))
        self.modes.append(self.modes_now())
        inner = self.dropout(self.norm(self.enter(x)).tanh())
        last = (self.mix(self.frozen(inner)).tanh() + self.tied(inner)).tanh()
        out = self.leave(last)
        self.recorded |= out.requires_grad
        self.autocast |= torch.is_autocast_enabled(x.device.type)
        self.activations.follow(last)
        self.outputs.follow(out)
        return out

    def modes_now(self) -> dict[str, bool]:
        """Of each part by its name, whether it is in training mode."""
        return {name: module.training for name, module in self.named_modules()}


def small_model() -> Watched:
    """In float64, so that no rounding hides or makes a difference; its BatchNorm has seen examples before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = Watched().double()
        with torch.no_grad():
            model.norm(torch.randn(9, 6, dtype=torch.float64) * 2 + 1)
            nn.init.normal_(model.norm.weight, 1.0, 0.2)
            model.leave.weight *= 8  # far off, so that its gradient is long: who clips it is seen
    return model


def batches(sizes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Examples and labels in pieces of these sizes; every piece looks a little different from the last."""
    draw = torch.Generator().manual_seed(11 + len(sizes))
    made = []
    for index, size in enumerate(sizes):
        x = torch.randn(size, 4, generator=draw, dtype=torch.float64) + 0.3 * index
        made.append((x, torch.randint(0, 3, (size,), generator=draw)))
    return made
