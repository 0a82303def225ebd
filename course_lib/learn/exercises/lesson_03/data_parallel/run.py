"""A run: how an answer is tried, with which model, inputs and modes, and the loss by which it learns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from course_lib.learn.exercises.lesson_03.data_parallel.models import batch, model_of
from course_lib.learn.exercises.lesson_03.data_parallel.trace import modes_now

__all__ = ["MODE_NAMES", "ReplicaRun", "inputs_of", "loss_of", "mode_of", "modes_of"]

MODE_NAMES = ("recording", "inference mode", "autocast", "the dtype of autocast")
_MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", torch.float16),
}


@dataclass(frozen=True)
class ReplicaRun:
    """How an answer is tried: the kind of model, devices, rows of the batch, and what is asked besides."""

    kind: str
    num_devices: int = 4
    rows: int = 8
    mode: str = ""  # of the caller: a name of ``_MODES``
    meets: bool = False  # replicas wait for each other
    failing: tuple[int, ...] = ()
    trains: bool = False  # three steps of SGD after the first backward
    evaluates: bool = False
    metered: bool = False
    early: bool = False  # replica 0 is done first, and the others when the caller is back, or after a while
    is_single: bool = False  # in float32: what is copied is looked at, and no value

    @property
    def rows_each(self) -> int:
        return -(-self.rows // self.num_devices)

    @property
    def num_parts(self) -> int:
        """Devices that have work: what ``Tensor.chunk`` gives."""
        return -(-self.rows // self.rows_each) if self.rows and self.kind != "no input" else 1

    def model(self) -> Any:
        model = model_of(self.kind, *((self.failing, self.rows_each) if self.kind == "failing" else ()))
        model.train(not self.evaluates)
        return model.float() if self.is_mixed or self.is_single else model

    @property
    def is_mixed(self) -> bool:
        return "float" in self.mode


def inputs_of(run: ReplicaRun, rows: int, step: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call with this many rows."""
    x = batch(rows, learns=not (run.mode or run.metered), step=step)
    if run.is_mixed or run.is_single:
        x = x.float()
    if run.kind == "no input":
        return (), {"times": 2 + step}
    if run.kind == "nested":
        labels = torch.arange(rows) * 3 + step
        given = {"x": x, "rest": (labels, "abc")}
        return (given, 2), {"shift": [torch.ones(rows, 1, dtype=x.dtype), {"k": labels + 1}]}
    return (x,), {}


def loss_of(out: Any) -> Tensor:
    """A loss in which every number of an output has a weight of its own."""
    floats = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    weights = [torch.arange(1.0, 1 + leaf.numel(), dtype=leaf.dtype).view_as(leaf) for leaf in floats]
    return torch.stack([(weight * leaf.square()).sum() for weight, leaf in zip(weights, floats, strict=True)]).sum()


def mode_of(run: ReplicaRun) -> contextlib.AbstractContextManager[Any]:
    """What the caller enters around its call."""
    return _MODES[run.mode]()


def modes_of(run: ReplicaRun) -> tuple[bool, bool, bool, str]:
    """The modes of a thread that has entered it."""
    with mode_of(run):
        return modes_now()
