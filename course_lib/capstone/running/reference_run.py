"""The same steps on one device in float64, and how far a run's weights are from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Values
from course_lib.capstone.running.task import ADAMW, batch_of, plain_model
from course_lib.models import next_token_loss

__all__ = ["TOLERANCE", "compared", "misfits", "on_one_device", "one_thread"]

TOLERANCE = 1e-3  # of the largest movement: what float32 and another order of adding may make of it


@dataclass(frozen=True, eq=False)
class OneDevice:
    """Weights before and after, and the losses of the steps."""

    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]
    losses: tuple[float, ...]

    @property
    def moved(self) -> float:
        """How far the weight went that moved the most."""
        return max(float((self.after[name] - self.before[name]).abs().max()) for name in self.after)


class _Training:
    """The whole batch, in float64, nothing cut and nothing paced; AdamW as its paper has it. As long as is asked for:
    what 3 steps come to is on the way to what 5 do.
    """

    def __init__(self, job: CapstoneJob) -> None:
        self._model = plain_model(job).double()
        self._batch = batch_of(job)
        self._moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in self._model.parameters()]
        self._losses: list[float] = []
        self._states = [self._state()]

    def after(self, num_steps: int) -> OneDevice:
        """What has become of the weights."""
        with one_thread():  # small matrices: a second one would wait and call that computing
            while len(self._losses) < num_steps:
                self._step()
        return OneDevice(self._states[0], self._states[num_steps], tuple(self._losses[:num_steps]))

    def _step(self) -> None:
        tokens, targets = self._batch
        self._model.zero_grad()
        loss = next_token_loss(self._model(tokens), targets)
        loss.backward()
        for weight, (first, second) in zip(self._model.parameters(), self._moments, strict=True):
            assert weight.grad is not None
            _update(weight.data, weight.grad, first, second, len(self._losses) + 1)
        self._losses.append(loss.item())
        self._states.append(self._state())

    def _state(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._model.state_dict().items()}


_training = lru_cache(maxsize=8)(_Training)


def on_one_device(job: CapstoneJob, num_steps: int) -> OneDevice:
    """The steps of the job on one device."""
    return _training(job).after(num_steps)


@contextmanager
def one_thread() -> Iterator[None]:
    """In this block PyTorch computes on one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _update(weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, number: int) -> None:
    """AdamW (Loshchilov and Hutter, 2019) on one tensor, in place; steps are counted from 1."""
    (beta1, beta2), lr = ADAMW["betas"], ADAMW["lr"]
    first.mul_(beta1).add_(gradient, alpha=1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    mean, square = first / (1 - beta1**number), second / (1 - beta2**number)
    weight.mul_(1 - lr * ADAMW["weight_decay"]).sub_(lr * mean / (square.sqrt() + ADAMW["eps"]))


def misfits(expected: OneDevice, state: Mapping[str, Tensor]) -> list[str]:
    """Sentences about weights that are missing or of another shape."""
    said = []
    for name, tensor in expected.after.items():
        if name not in state:
            said.append(f"{name} is missing")
        elif state[name].shape != tensor.shape:
            said.append(f"{name} has shape {tuple(state[name].shape)} and not {tuple(tensor.shape)}")
    return said


def compared(expected: OneDevice, state: Mapping[str, Tensor], told_by_ranks: Sequence[Sequence[float]]) -> Values:
    """Of a state without misfits. ``told_by_ranks``: the losses of the steps, for each rank."""
    apart = {name: float((state[name].double() - t).abs().max()) for name, t in expected.after.items()}
    # NaN is the largest of all
    where = max(apart, key=lambda name: float("inf") if apart[name] != apart[name] else apart[name])
    told = tuple(map(tuple, told_by_ranks))
    return Values(apart[where], expected.moved, TOLERANCE, where, told[0], expected.losses, told)
