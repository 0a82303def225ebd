"""The modules of 03.replicas: what a module may consist of, frozen, shared or not saved."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["MODULES", "module_of", "parts_for"]


class _Scaled(nn.Module):
    """A buffer that is not saved, so that ``state_dict()`` does not show it, and a parameter without a dim."""

    offset: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.tensor([0.5, -1.0, 2.0]), persistent=False)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.offset


def _normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.0), nn.Linear(4, 2))


def _frozen() -> nn.Module:
    module = _normed()
    module.get_submodule("0").requires_grad_(False)
    return module


def _tied() -> nn.Module:
    """Two layers with one weight, in a module within a module."""
    first, second = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    return nn.Sequential(_Scaled(), nn.Sequential(first, nn.BatchNorm1d(3), second))


MODULES: dict[str, Callable[[], nn.Module]] = {"normed": _normed, "frozen": _frozen, "tied": _tied}


def module_of(kind: str) -> nn.Module:
    """A module in float64, with one part in evaluation and a gradient that is there already."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = MODULES[kind]().double()
    for tensor in module.buffers():
        tensor.add_(1)  # so that no buffer is what a new module has
    next(module.modules()).get_submodule("2" if kind != "tied" else "1.0").eval()
    last = list(module.parameters())[-1]
    last.grad = torch.full_like(last, 0.25)
    return module


def parts_for(num_replicas: int) -> list[Tensor]:
    """A part of a batch for each replica, no two of one mean."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(3 * num_replicas, 3, generator=draw, dtype=torch.float64)
    return list((x + torch.arange(3 * num_replicas).view(-1, 1)).chunk(num_replicas))
