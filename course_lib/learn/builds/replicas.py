"""Implementations of ``DataParallel`` through one step on the same batch, in this process: a column each."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.builds.comparison import SideBySide, compared
from course_lib.learn.exercises.lesson_03.data_parallel.trace import (
    ThreadRendezvous,
    Trace,
    WatchedRoot,
    bytes_of_tensors,
    threads_metered,
    tracing,
)
from course_lib.meter import bytes_text
from course_lib.parallel.data import DataParallel

__all__ = ["replicas_side_by_side"]

Wrap = Callable[[nn.Module, list[str]], Callable[..., Any]]


def replicas_side_by_side(
    implementations: Mapping[str, Wrap], model: nn.Module, x: Tensor, *, num_devices: int = 4, build: str = ""
) -> SideBySide:
    """One forward and backward pass of ``wrap(model, ["cpu", ...])(x)`` for each; a column each, the course's last.

    Args:
        implementations: Classes like ``DataParallel``, by the name of their columns. Each gets a copy of the model.
        model: Made of layers that see each row by itself, so that one device has the same output.
        x: A batch (B, ...).
        num_devices: How many devices the CPU stands for.
        build: The name of a build: ``build_progress`` shows this table again.

    One that fails has dashes in its column, and a line below the table.
    """
    alone = WatchedRoot(copy.deepcopy(model))
    expected = _step(alone, alone, x)
    return compared(
        f"The same step on {num_devices} devices",
        {**implementations, "the course's": DataParallel},
        lambda wrap: _column(wrap, WatchedRoot(copy.deepcopy(model)), x, num_devices, expected),
        failing=Exception,
        tell=lambda error: f"{type(error).__name__}: {error}",
        build=build,
    )


def _column(wrap: Wrap, model: WatchedRoot, x: Tensor, num_devices: int, expected: list[Tensor]) -> dict[str, str]:
    """Memory made in the backward pass is each implementation's and the model's together, and is not counted."""
    num_parts = len(x.chunk(num_devices))
    trace = Trace(model, rendezvous=ThreadRendezvous(num_parts, in_order=False))
    wrapped = wrap(model, ["cpu"] * num_devices)
    with tracing(trace), threads_metered(trace):
        out = wrapped(x)
    at_once = num_parts if trace.met else trace.most_at_once
    found = [out.detach(), *_gradients(model, out)]
    copied = trace.made_bytes - out.nbytes  # the joined output is no copy
    del out
    gc.collect()
    left = trace.alive(x, found, [p.grad for p in model.parameters()])
    equal = all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(expected, found, strict=True))
    models = copied / bytes_of_tensors(model)
    return {
        "equal": "yes" if equal else "no",
        "copied": f"{bytes_text(max(0, copied))}, {models:.1f} models",
        "at_once": f"{at_once} of {num_parts}",
        "left": ", ".join(left[:2]) or "nothing",
    }


def _step(forward: Callable[..., Any], model: nn.Module, x: Tensor) -> list[Tensor]:
    out = forward(x)
    return [out.detach(), *_gradients(model, out)]


def _gradients(model: nn.Module, out: Tensor) -> list[Tensor]:
    out.square().sum().backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
