"""The models of the build of lesson 03: what a module may consist of, each a layer within a watched root."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_03.data_parallel.trace import WatchedRoot

__all__ = ["ERRORS", "FEATURES", "MODELS", "batch", "model_of"]

FEATURES = 4
ERRORS = ("a label is out of range", "a row is empty", "the rate is negative", "a file is missing")


class _Tied(nn.Module):
    """A weight with two names, a layer that is used twice and one that is not, a frozen one, no bias, strides."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES, bias=False)
        self.frozen = nn.Linear(FEATURES, FEATURES).requires_grad_(False)
        self.again = self.unused = nn.Linear(FEATURES, FEATURES)
        self.again.weight = nn.Parameter(self.again.weight.detach().t())  # not contiguous
        self.unused = nn.Linear(2, 3)
        self.last = nn.Linear(FEATURES, FEATURES)
        self.last.weight = self.first.weight
        self.twice = nn.ModuleList([self.again, nn.Tanh(), self.again])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.frozen(self.first(x)))
        for layer in self.twice:
            x = layer(x)
        return self.last(x)


class _Counting(nn.Module):
    """Buffers that are changed in place, one of them not saved; a list, and a lock, of which there can be no copy."""

    seen: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 2)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([0.5, 2.0]), persistent=False)
        self.register_buffer("nothing", None)
        self.lock, self.noted = threading.Lock(), list[int]()

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            self.seen += len(x)
            self.noted.append(len(x))
        return self.layer(x) * self.scale


class _Nested(nn.Module):
    """Arguments of every kind, and outputs of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 3)

    def forward(self, batch: dict[str, Any], times: int = 1, *, shift: list[Any]) -> dict[str, Any]:
        y = self.layer(batch["x"]) * times + shift[0]
        label, note = batch["rest"]
        return {"y": y, "pair": (label + len(note), None), "loss": y.mean(), "list": [y[:, 0], shift[1]["k"]]}


class _Recurrent(nn.Module):
    """A layer that keeps a list of its weights beside their names."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.LSTM(FEATURES, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.reader(x[:, None, :] * torch.ones(1, 3, 1, dtype=x.dtype))[0]


class _WithoutInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.5, -2.0]))

    def forward(self, times: int = 1) -> Tensor:
        return self.weight * times


class _Failing(nn.Module):
    """The replicas of these numbers fail, each with an error of its own."""

    def __init__(self, failing: tuple[int, ...], rows_each: int) -> None:
        super().__init__()
        self.layer, self.failing, self.rows_each = nn.Linear(FEATURES, 2), failing, rows_each

    def forward(self, x: Tensor) -> Tensor:
        number = int(x[0, 0]) // self.rows_each
        if number in self.failing:
            raise ValueError(ERRORS[number])
        return self.layer(x)


def _plain() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 2))


def _wide() -> nn.Module:
    """Weights that are many bytes beside a batch, some under two names, some frozen; and a buffer."""
    model = nn.Sequential(nn.Linear(FEATURES, 48), nn.BatchNorm1d(48), *(nn.Linear(48, 48) for _ in range(3)))
    model[3].weight = model[2].weight
    model[4].requires_grad_(False)
    return model.append(nn.Linear(48, 2))


def _normed() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


MODELS: dict[str, Callable[..., nn.Module]] = {
    "plain": _plain,
    "wide": _wide,
    "tied": _Tied,
    "normed": _normed,
    "counting": _Counting,
    "nested": _Nested,
    "recurrent": _Recurrent,
    "no input": _WithoutInput,
    "failing": _Failing,
}


def model_of(kind: str, *args: Any) -> WatchedRoot:
    """A fresh model of this kind in float64; two of one kind are equal, and no random state has moved."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.inference_mode(False):
        torch.manual_seed(5)
        return WatchedRoot(MODELS[kind](*args)).double()


def batch(rows: int, *, learns: bool = False, step: int = 0) -> Tensor:
    """(rows, features) in float64: the number of the row first, by which a part is known, then others."""
    numbers = torch.arange(rows * FEATURES, dtype=torch.float64).view(rows, FEATURES)
    x = torch.sin(numbers * (1.7 + step))
    x[:, 0] = torch.arange(rows)
    return x.requires_grad_(learns)
