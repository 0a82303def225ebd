"""How the answers of lesson 01 are tried: small models, and an eye on what autograd keeps while they run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.learn.compare import close_to
from course_lib.learn.exercise import Evidence, Exercise

__all__ = [
    "batches",
    "behaves_like",
    "evaluated",
    "recomputed",
    "run_again",
    "step_over",
    "step_result",
    "try_evaluation",
    "watch_kept",
]

LEARNING_RATE = 0.5


class Kept:
    """Bytes that autograd keeps for backward passes to come: now, and the most so far. Parameters do not count."""

    def __init__(self, model: nn.Module) -> None:
        self._own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self.now_bytes = self.most_bytes = 0

    def pack(self, tensor: Tensor) -> _Box:
        box = _Box(tensor)
        if tensor.untyped_storage().data_ptr() not in self._own:
            self.now_bytes += tensor.nbytes
            self.most_bytes = max(self.most_bytes, self.now_bytes)
            weakref.finalize(box, self._drop, tensor.nbytes)
        return box

    def _drop(self, size_bytes: int) -> None:
        self.now_bytes -= size_bytes


class _Box:
    """What autograd holds in place of a tensor; when it lets go of the box, the tensor is free."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()  # a saved output holds its graph: with it the box would hold itself


@contextmanager
def watch_kept(model: nn.Module) -> Iterator[Kept]:
    """Count what is kept for backward while the block runs."""
    kept = Kept(model)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda box: box.tensor):
        yield kept


def small_model() -> nn.Module:
    """A classifier of three classes in float64, so that no rounding hides or makes a difference."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def batches(sizes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Examples and labels in pieces of these sizes; every piece looks a little different from the last."""
    draw = torch.Generator().manual_seed(11)
    made = []
    for index, size in enumerate(sizes):
        x = torch.randn(size, 4, generator=draw, dtype=torch.float64) + index
        made.append((x, torch.randint(0, 3, (size,), generator=draw)))
    return made


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _prepared(momentum: float, stale: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=momentum)
    if stale:  # gradients that an earlier step left behind
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    return model, optimizer


def step_over(
    answer: Callable[..., Any], sizes: Sequence[int], momentum: float, stale: bool
) -> dict[str, Any]:
    """Let ``answer(model, optimizer, pieces)`` take a step; what it did to the weights, and what it kept meanwhile."""
    model, optimizer = _prepared(momentum, stale)
    pieces = batches(sizes)
    with watch_kept(model) as alone:
        largest = max(pieces, key=lambda piece: len(piece[0]))
        loss = F.cross_entropy(model(largest[0]), largest[1])
        one_piece_bytes = alone.most_bytes
    del loss
    before = _weights(model)
    with watch_kept(model) as kept:
        answer(model, optimizer, pieces)
    if torch.equal(before, _weights(model)):
        return {"the change of the weights": "none", "kept for backward": "nothing to tell"}
    several = kept.most_bytes > 1.5 * one_piece_bytes
    return {
        "the change of the weights": _weights(model) - before,
        "kept for backward": "several pieces at once" if several else "one piece at a time",
    }


def step_result(sizes: Sequence[int], momentum: float, stale: bool) -> dict[str, Any]:
    """What is right: the step that the whole batch takes at once."""
    model, optimizer = _prepared(momentum, stale=False)
    before = _weights(model)
    x, y = (torch.cat(parts) for parts in zip(*batches(sizes), strict=True))
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    return {"the change of the weights": _weights(model) - before, "kept for backward": "one piece at a time"}


class Counted(nn.Module):
    """A block that counts how often it runs."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(dropout), nn.Linear(8, 4)).double()
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return x + self.layers(x)


def _block(dropout: float) -> tuple[Counted, Tensor, Tensor, Tensor]:
    """A block with gradients of ones, an input that has a history, the gradient of its output, a generator state."""
    torch.manual_seed(3)
    block = Counted(dropout)
    for parameter in block.parameters():
        parameter.grad = torch.ones_like(parameter)
    source = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    grad_y = torch.randn(5, 4, dtype=torch.float64)
    torch.manual_seed(21)
    state = torch.get_rng_state()
    torch.manual_seed(99)  # by the time of the backward pass the generator has moved on
    return block, source, grad_y, state


def run_again(answer: Callable[..., Any], dropout: float) -> dict[str, Any]:
    """Call ``answer(block, x, grad_y, rng_state)`` as autograd calls a backward: with recording switched off."""
    block, source, grad_y, state = _block(dropout)
    x = source * 1.0
    before = torch.get_rng_state()
    with torch.no_grad():
        grad_x = answer(block, x, grad_y, state)
    return {
        "the gradient of x": grad_x,
        "the .grad of the block's parameters": _gradients(block),
        "the gradient of what came before x": "none" if source.grad is None else "changed",
        "runs of the block": block.runs,
        "the random number generator afterwards": (
            "as it was" if torch.equal(before, torch.get_rng_state()) else "moved"
        ),
    }


def recomputed(dropout: float) -> dict[str, Any]:
    """What is right: the gradients of a block whose forward pass was recorded."""
    block, source, grad_y, state = _block(dropout)
    torch.set_rng_state(state)
    block(source).backward(grad_y)
    return {
        "the gradient of x": source.grad,
        "the .grad of the block's parameters": _gradients(block),
        "the gradient of what came before x": "none",
        "runs of the block": 1,
        "the random number generator afterwards": "as it was",
    }


def _gradients(block: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in block.parameters() if p.grad is not None])


def try_evaluation(answer: Callable[..., Any], sizes: Sequence[int]) -> dict[str, Any]:
    """Call ``answer(model, batches)``; its number, and what it kept for a backward pass that never comes."""
    model = small_model()
    parts = batches(sizes)
    with watch_kept(model) as alone:
        losses = [F.cross_entropy(model(x), y) for x, y in parts[:1]]
        one_batch_bytes = alone.most_bytes
    del losses
    with watch_kept(model) as kept:
        mean = answer(model, parts)
    if kept.most_bytes == 0:
        amount = "nothing"
    else:
        # two, because the name `loss` still holds the last batch's graph while the next one is made
        few = kept.most_bytes <= 2.5 * one_batch_bytes
        amount = "a batch or two at a time" if few else "every batch to the end"
    return {"kept for backward": amount, "the mean loss": mean.item() if isinstance(mean, Tensor) else mean}


def evaluated(sizes: Sequence[int]) -> dict[str, Any]:
    """What is right: the mean over all examples, with nothing kept."""
    model = small_model()
    x, y = (torch.cat(parts) for parts in zip(*batches(sizes), strict=True))
    with torch.no_grad():
        return {"kept for backward": "nothing", "the mean loss": F.cross_entropy(model(x), y).item()}


def behaves_like(exercise: Exercise, seen: Evidence, *variants: Callable[..., Any]) -> bool:
    """Whether an answer gave what one of these would have given, in every case."""
    compare = close_to(1e-5)
    for variant in variants:
        other = exercise.judge(variant, ())
        pairs = list(zip(seen.outcomes, other.outcomes, strict=True))
        if all(a.error is None and b.error is None and not compare(b.got, a.got) for a, b in pairs):
            return True
    return False
