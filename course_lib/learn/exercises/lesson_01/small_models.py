"""A small model to try answers on, with all that makes real ones awkward, and an eye on how it is run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

__all__ = ["Watched", "batches", "named", "small_model"]


class Dropout(nn.Dropout):
    """Drops by the number itself and not by chance: the same example loses the same values in any batch."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        return input * ((input.detach() * 997).sin() > 0) / (1 - self.p)


class Watched(nn.Module):
    """A classifier of three classes with BatchNorm, dropout, a frozen layer and a weight that is used twice.

    It notes of each run how many examples came, which of its layers were in training mode and whether the run was
    recorded; and it knows how many of its outputs are still held.
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
        self.modes: list[tuple[bool, ...]] = []
        self.most_held = 0  # outputs of earlier runs that were still held when another run began
        self._outputs: list[weakref.ref[torch.UntypedStorage]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.most_held = max(self.most_held, self.num_held)
        self.runs.append(len(x))
        self.modes.append(tuple(module.training for module in self.modules()))
        out = self.dropout(self.norm(self.enter(x)).tanh())
        out = self.leave((self.mix(self.frozen(out)).tanh() + self.tied(out)).tanh())
        self._outputs.append(weakref.ref(out.untyped_storage()))
        return out

    @property
    def num_held(self) -> int:
        return sum(output() is not None for output in self._outputs)

    @property
    def num_held_at_the_end(self) -> int:
        """Outputs that somebody keeps for good, not in a circle that the collector will find."""
        if self.num_held:
            gc.collect()
        return self.num_held

    def forget(self) -> None:
        """Begin to count anew."""
        self.runs, self.modes, self.most_held, self._outputs = [], [], 0, []


def small_model() -> Watched:
    """In float64, so that no rounding hides or makes a difference; its BatchNorm has seen examples before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = Watched().double()
        with torch.no_grad():
            model.norm(torch.randn(9, 6, dtype=torch.float64) * 2 + 1)
            nn.init.normal_(model.norm.weight, 1.0, 0.2)
    return model


def batches(sizes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Examples and labels in pieces of these sizes; every piece looks a little different from the last."""
    draw = torch.Generator().manual_seed(11 + len(sizes))
    made = []
    for index, size in enumerate(sizes):
        x = torch.randn(size, 4, generator=draw, dtype=torch.float64) + 0.3 * index
        made.append((x, torch.randint(0, 3, (size,), generator=draw)))
    return made


def named(parts: Sequence[tuple[Tensor, Tensor]], what: str) -> Iterator[tuple[str, Tensor]]:
    """Copies of the tensors of pieces or batches, each with a name: "the x of piece 2"."""
    for index, (x, y) in enumerate(parts):
        yield f"the x of {what} {index}", x.clone()
        yield f"the y of {what} {index}", y.clone()
