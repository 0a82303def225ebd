"""What a piece of a model costs besides its parameters: memory, time, and the bytes that cross a cut behind it.

With ``cutting.parameter_costs`` there are three ways to weigh a piece, and they disagree: early pieces of a network for
images take time and activations, late ones take parameters. A fourth weighs the gaps between pieces: the bytes that
cross a cut there. Weigh what runs out first on your devices and links.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from course_lib.base.checks import at_least
from course_lib.meter import MemoryLedger, Timeline
from course_lib.parallel.model.cutting import buffers_kept, pieces_of

__all__ = ["crossing_costs", "memory_costs", "time_costs"]


def memory_costs(
    model: nn.Module,
    x: torch.Tensor,
    *,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
) -> list[int]:
    """Bytes that training on batch ``x`` holds for each piece: weights, gradients, optimizer state, activations.

    The optimizer's state is what ``optimizer(parameters, lr=...)`` holds after a step. Activations are what the
    forward pass keeps for the backward pass, as the memory ledger sees it: the input of a piece counts where that
    piece keeps it, and ``x`` nowhere. The model is left as it was.
    """
    row = pieces_of(model)
    kept = [0]
    with buffers_kept(model), MemoryLedger(model, inputs=x) as ledger:
        for name, piece in row.items():
            x = piece(x)
            kept.append(ledger.mark(name)["activation"])
    activations = [after - before for before, after in itertools.pairwise(kept)]
    return [_state_bytes(piece, optimizer) + a for piece, a in zip(row.values(), activations, strict=True)]


def _state_bytes(piece: nn.Module, optimizer: Callable[..., torch.optim.Optimizer]) -> int:
    """Weights and buffers; for what learns, a gradient and what the optimizer keeps, read off a step of twins."""
    learning = [p for p in piece.parameters() if p.requires_grad]
    held = [*piece.parameters(), *piece.buffers(), *learning]  # the last once more: a gradient is as large
    if learning:
        twins = [torch.zeros_like(p, requires_grad=True) for p in learning]
        for twin in twins:
            twin.grad = torch.zeros_like(twin)
        stepped = optimizer(twins, lr=1.0)
        stepped.step()
        held += [v for state in stepped.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    return sum(tensor.nbytes for tensor in held)


def time_costs(model: nn.Module, x: torch.Tensor, *, repetitions: int = 5) -> list[float]:
    """Seconds that each piece takes on batch ``x``, forward and backward: the median of so many repetitions.

    Measured now, on the device where ``x`` and the model lie; a round before the first is not counted. The model is
    left as it was.
    """
    at_least(1, repetitions=repetitions)
    row = pieces_of(model)
    times_s: dict[str, list[float]] = {name: [] for name in row}
    with buffers_kept(model), _gradients_kept(model):
        for _ in range(repetitions + 1):
            timeline, entering = Timeline(device=x.device), x
            for name, piece in row.items():
                entering = _forward_and_backward(timeline, name, piece, entering)
            for name, mine in times_s.items():
                mine.append(timeline.time_s(name))
    return [statistics.median(mine[1:]) for mine in times_s.values()]


def _forward_and_backward(timeline: Timeline, name: str, piece: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """One piece on its own, as a rank would run it; returns what the next piece is given."""
    x = x.detach().requires_grad_(x.requires_grad)  # nobody asks for the gradient of the batch itself
    with timeline.span(name):
        y: torch.Tensor = piece(x)
        if y.requires_grad:
            y.backward(torch.ones_like(y))
    return y


def crossing_costs(model: nn.Module, x: torch.Tensor) -> list[int]:
    """Bytes that cross a cut behind each piece but the last, one way: what that piece gives for batch ``x``.

    One number for each gap between two pieces. A step sends them twice: the activation to the right, its gradient to
    the left, unless nothing before the cut learns. Found by a forward pass without gradients; the model is left as it
    was. Raises TypeError where a piece gives no tensor: this course sends one over each cut.
    """
    sizes_bytes = []
    with torch.no_grad(), buffers_kept(model):
        for name, piece in pieces_of(model).items():
            given: object = piece(x)
            if not isinstance(given, torch.Tensor):
                raise TypeError(
                    f"the piece {name} returns a {type(given).__name__}, and one tensor crosses a cut. Let it return "
                    "a single tensor, such as torch.cat of its tensors."
                )
            sizes_bytes.append(given.nbytes)
            x = given
    return sizes_bytes[:-1]


@contextmanager
def _gradients_kept(model: nn.Module) -> Iterator[None]:
    """In this block parameters begin without a gradient; afterwards they have the one they had."""
    before = [(p, p.grad) for p in model.parameters()]
    for p, _ in before:
        p.grad = None
    try:
        yield
    finally:
        for p, grad in before:
            p.grad = grad
