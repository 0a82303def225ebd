"""What 07.loss looks at: a batch in pieces, as on the last stage of a pipeline."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.judging.compare import short

__all__ = ["LARGE", "Batch", "LossSeen", "right_loss", "try_loss"]

LARGE = 1000.0  # the exponential of such an output is no number any more
Answer = Callable[[Tensor, Tensor, int], Any]


@dataclass(frozen=True)
class Batch:
    """A batch in pieces of these sizes; the backwards come one by one, or after all the forwards."""

    sizes: tuple[int, ...]
    num_classes: int
    backwards_last: bool = False
    scale: float = 1.0

    @property
    def num_samples(self) -> int:
        return sum(self.sizes)

    def tensors(self) -> tuple[Tensor, Tensor]:
        made = torch.Generator().manual_seed(self.num_samples)
        shape = self.num_samples, self.num_classes
        output = self.scale * torch.randn(shape, generator=made, dtype=torch.float64)
        return output, torch.arange(1, self.num_samples + 1).square() % self.num_classes


@dataclass
class LossSeen:
    """What an answer gave for the pieces of one batch."""

    loss: float = 0.0
    gradient: Tensor | None = None  # of the output of the whole batch
    has_graph: bool = True
    problem: str = ""  # what came where a tensor with one number was to come
    is_number: bool = False  # it was a plain number
    one_each: bool = False  # it was a tensor with a number for each sample of a piece
    notes: list[str] = field(default_factory=list)  # what it changed against the contract, in words

    @property
    def is_finite(self) -> bool:
        whole = self.gradient is None or bool(self.gradient.isfinite().all())
        return whole and self.loss - self.loss == 0.0


def right_loss(batch: Batch) -> LossSeen:
    """By PyTorch, over the whole batch."""
    output, target = batch.tensors()
    output.requires_grad_()
    loss = F.cross_entropy(output, target)
    loss.backward()
    return LossSeen(loss.item(), output.grad)


def try_loss(answer: Answer, batch: Batch) -> Any:
    """Each piece by itself: its contribution, and a backward from there."""
    seen = LossSeen()
    whole, targets = batch.tensors()
    leaves = [piece.clone().requires_grad_() for piece in whole.split(batch.sizes)]
    waiting: list[Tensor] = []
    held: list[weakref.ref[Tensor]] = []
    for leaf, target in zip(leaves, targets.split(batch.sizes), strict=True):
        output, right = leaf * 1, target.clone()  # a stage's output is no leaf
        made = answer(output, right, batch.num_samples)
        if made is ...:
            return ...
        if _is_no_loss(made, len(right), seen):
            return seen
        _look(seen, leaf, output, right, target)
        held += [weakref.ref(output), weakref.ref(made)]
        seen.loss += made.item()
        seen.has_graph = seen.has_graph and made.requires_grad
        if made.requires_grad:
            waiting.append(made)
        if not batch.backwards_last and waiting:
            waiting.pop().backward()
    while waiting:
        waiting.pop().backward()
    if seen.has_graph:
        zeros = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        seen.gradient = torch.cat(zeros)
    del output, made
    _look_for_held(seen, held)
    return seen


def _is_no_loss(made: Any, num_samples: int, seen: LossSeen) -> bool:
    """Whether this is no tensor with one number; what it is instead is written down."""
    if isinstance(made, Tensor) and made.numel() == 1:
        return False
    seen.problem = f"expected a tensor with one number, got {short(made)}"
    seen.is_number = isinstance(made, Real) and not isinstance(made, bool)
    seen.one_each = isinstance(made, Tensor) and made.shape == (num_samples,)
    return True


def _look(seen: LossSeen, leaf: Tensor, output: Tensor, right: Tensor, target: Tensor) -> None:
    """Whether what was handed in is as it was, and the switches too."""
    notes = []
    if not torch.equal(output.detach(), leaf.detach()):
        notes.append("`output` was changed in place; the stage that made it may need its values in its backward")
    if not torch.equal(right, target):
        notes.append("`target` was changed; it is only to be read")
    if leaf.grad is not None:
        notes.append("a backward has run already when the contribution comes back; the pipeline runs it, once")
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
        notes.append("autograd stays switched off")
    seen.notes += [note for note in notes if note not in seen.notes]


def _look_for_held(seen: LossSeen, held: list[weakref.ref[Tensor]]) -> None:
    if any(ref() is not None for ref in held):
        gc.collect()
    if any(ref() is not None for ref in held):
        seen.notes.append(
            "the batch is done, and somebody still holds an `output` or a contribution: memory grows with each batch"
        )
