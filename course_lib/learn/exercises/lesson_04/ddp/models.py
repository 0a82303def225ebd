"""04.ddp: small models on which a learner's DDP is tried, in float64 where nothing else is said."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = [
    "BRANCH_BYTES",
    "WIDE_LAYER_BYTES",
    "Branches",
    "Mixed",
    "Named",
    "Tied",
    "Two",
    "convolutions",
    "frozen",
    "plain",
    "wide",
    "with_buffers",
]

WIDE_LAYER_BYTES = (32 * 32 + 32) * 8
BRANCH_BYTES = (8 * 8 + 8) * 8


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 4)).double()


def wide() -> nn.Module:
    """Eight layers of one size; a batch of two rows is small beside each."""
    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(8))).double()


def frozen() -> nn.Module:
    """The first layer is frozen, and a bias in the middle."""
    model = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 4)).double()
    for name in ("0.weight", "0.bias", "2.bias"):
        model.get_parameter(name).requires_grad_(False)
    return model


def with_buffers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)).double()


def convolutions() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Conv2d(3, 4, 3)).double()
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return model


class Named(nn.Module):
    """Takes a second input by name, and gives a dictionary; in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor, *, scale: float) -> dict[str, Tensor]:
        return {"out": self.second(self.first(x).tanh() * scale)}


class Mixed(nn.Module):
    """A layer in float32 between two in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 6).double(), nn.Linear(6, 6), nn.Linear(6, 4).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x).float()).double())


class Tied(nn.Module):
    """One matrix, used by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.first, self.again = nn.Linear(8, 6), nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.again.weight = self.first.weight
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.first(self.into(x)).tanh())


class Branches(nn.Module):
    """A stem, and three branches of one size, of which a forward pass names those that it uses, in an order."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.branches = nn.ModuleDict({name: nn.Linear(8, 8) for name in "abc"})
        self.double()

    def forward(self, x: Tensor, names: Sequence[str]) -> Tensor:
        x = self.stem(x).tanh()
        return torch.stack([self.branches[name](x) * (1 + ord(name) % 3) for name in names]).sum(0)


class Two(nn.Module):
    """Two models that are wrapped each by itself, one behind the other."""

    def __init__(self, first: nn.Module | None = None, second: nn.Module | None = None) -> None:
        super().__init__()
        self.first = first or nn.Sequential(nn.Linear(8, 8), nn.Tanh()).double()
        self.second = second or nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))
