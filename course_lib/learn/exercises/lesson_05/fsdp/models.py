"""05.fsdp: small models on which a learner's fully sharded wrapper is tried, in float64 where nothing else is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "WIDE_LAYERS",
    "WIDE_NUMBERS",
    "Fails",
    "Pairs",
    "Probe",
    "Stemmed",
    "TiedEnds",
    "TwoDtypes",
    "Unused",
    "layers",
    "normed",
    "wide",
]

WIDE_LAYERS, _WIDTH, _INNER = 10, 40, 20
WIDE_NUMBERS = 2 * _WIDTH * _INNER + _INNER + _WIDTH  # of a unit of ``wide``


class _Look(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, look: Callable[[str], None]) -> Tensor:
        ctx.look = look
        look("forward")
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.look("backward")
        return grad, None


class Probe(nn.Module):
    """Gives back what it gets, and calls ``look`` on the way: with "forward", and with "backward"."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[str], None] = lambda when: None

    def forward(self, x: Tensor) -> Tensor:
        return _Look.apply(x, lambda when: self.look(when))


def layers() -> nn.Module:
    """Four layers whose sizes do not divide."""
    made = (nn.Linear(8, 13), nn.Tanh(), nn.Linear(13, 11), nn.Tanh(), nn.Linear(11, 5), nn.Tanh(), nn.Linear(5, 3))
    return nn.Sequential(*made).double()


def wide() -> nn.Module:
    """Units of two layers and a probe between them; a batch of two rows is small beside each."""
    units = [(nn.Linear(_WIDTH, _INNER), Probe(), nn.Linear(_INNER, _WIDTH)) for _ in range(WIDE_LAYERS)]
    return nn.Sequential(*(nn.Sequential(*unit) for unit in units)).double()


class Stemmed(nn.Module):
    """Blocks between a stem and a head, of which the two are in no unit."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.scale = nn.Linear(8, 6), nn.Parameter(torch.ones(6))
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 6)) for _ in range(3))
        self.head = nn.Linear(6, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x) * self.scale
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class TwoDtypes(nn.Module):
    """A unit in which a layer is in float32 and the other in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.fine = nn.Linear(8, 6), nn.Linear(6, 3).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.fine(self.narrow(x.float()).double())


class TiedEnds(nn.Module):
    """One matrix that looks up and scores, in no unit, around two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(8, 6, bias=False), nn.Linear(8, 6, bias=False)
        self.out.weight = self.into.weight
        self.first, self.second = nn.Linear(6, 9), nn.Linear(9, 8)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.second(self.first(self.into(x)).tanh()))


class Unused(nn.Module):
    """Two layers in one unit, of which the second is used on request."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.double()

    def forward(self, x: Tensor, both: bool) -> Tensor:
        x = self.first(x)
        return x + self.second(x) if both else x


class Pairs(nn.Module):
    """A unit that gives two tensors, and is called twice in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.pair, self.last = Halves(), nn.Linear(4, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.pair(x)
        again, _ = self.pair(torch.cat([left, right], dim=-1))
        return self.last(again * right)


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        left, right = self.layer(x).tanh().chunk(2, dim=-1)
        return left, right


class Fails(nn.Module):
    """Layers whose last one may be asked to fail, after the others have computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 3)
        self.double()
        self.fails = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).tanh()
        if self.fails:
            raise KeyError("no such row")
        return self.second(x)


def normed() -> nn.Module:
    """A layer of buffers between two others; one of them is in no ``state_dict()``."""
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).double()
    model[1].register_buffer("scratch", torch.zeros(2), persistent=False)
    return model
