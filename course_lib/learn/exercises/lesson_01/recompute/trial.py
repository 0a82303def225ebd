"""How 01.recompute is tried: the backward pass of small blocks, and how it left block, input and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_01.small_models import HeldBytes
from course_lib.learn.exercises.lesson_01.tries import BESIDES, first_of
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["BLOCK_GRADS", "OF_X", "SOURCE", "BlockSetting", "recomputed", "run_again", "second_run_was_recorded"]

OF_X, BLOCK_GRADS = "the gradient of x", "the .grad of the block's parameters"
SOURCE, RUNS, RANDOM = (
    "the gradient of what came before x",
    "runs of the block",
    "the random number generator afterwards",
)


@dataclass(frozen=True)
class BlockSetting:
    """A block and its input. ``first``: no ``.grad`` is there yet. ``plain``: nothing is frozen, tied or left out.

    ``second``: the answer has been called before, with another block of the same shape.
    """

    dropout: float = 0.0
    shape: tuple[int, ...] = (5, 4)
    first: bool = False
    training: bool = True
    plain: bool = True
    unused: bool = False
    dtype: torch.dtype = torch.float64
    second: bool = False


class Block(nn.Module):
    """A block that notes of each run whether it was recorded, and which of its layers were in training mode.

    ``unused``: it has a layer more, which no run goes through, as a head for another task.
    """

    def __init__(self, dropout: float, plain: bool, unused: bool) -> None:
        super().__init__()
        self.widen, self.narrow, self.again = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.dropout = nn.Dropout(dropout)
        if not plain:
            self.narrow.weight.requires_grad_(False)
            self.widen.bias.requires_grad_(False)
            self.other = nn.Linear(4, 8)
            self.other.weight = self.widen.weight
        if unused:
            self.head = nn.Linear(4, 2)
        self.plain, self.activations = plain, HeldBytes()
        self.recorded: list[bool] = []
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.recorded.append(torch.is_grad_enabled())
        self.modes.append(self.dropout.training)
        wide = inner = self.dropout(nn.functional.gelu(self.widen(x)))
        if not self.plain:
            wide = wide * self.other(x).tanh()
        self.activations.follow(inner)
        return x + self.narrow(wide) + self.again(wide.tanh())


def _made(setting: BlockSetting, *, seed: int = 3) -> tuple[Block, Tensor, Tensor, Tensor]:
    """A block, an input that has a history, the gradient of its output, a generator state."""
    torch.manual_seed(seed + len(setting.shape))
    block = Block(setting.dropout, setting.plain, setting.unused).to(setting.dtype).train(setting.training)
    if not setting.first:
        for parameter in block.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    source, grad_y = (_drawn(setting) for _ in range(2))
    source.requires_grad_()
    torch.manual_seed(21)
    state = torch.get_rng_state()
    torch.manual_seed(99)  # by the time of the backward pass the generator has moved on
    return block, source, grad_y, state


def _drawn(setting: BlockSetting) -> Tensor:
    """Numbers of this shape; those of a block with more in it do not lie in memory in their own order."""
    first, *rest = setting.shape
    drawn = torch.randn(*rest, first, dtype=setting.dtype)
    return drawn.movedim(-1, 0) if not setting.plain else drawn.movedim(-1, 0).contiguous()


def run_again(answer: Callable[..., Any], setting: BlockSetting) -> dict[str, Any]:
    """Call ``answer(block, x, grad_y, rng_state)`` as autograd calls a backward: with recording switched off."""
    earlier = _earlier(answer, setting) if setting.second else None
    block, source, grad_y, state = _made(setting)
    x = source * 1.0
    history, before = x.grad_fn, torch.get_rng_state()
    kept = Kept(ignore=("gradients", "graphs"), block=block)
    given, traces = Kept(x=x, grad_y=grad_y, rng_state=state), Traces((x, grad_y, state))
    with torch.no_grad():
        grad_x = answer(block, x, grad_y, state)
        recorded = torch.is_grad_enabled()
    is_moved = not torch.equal(before, torch.get_rng_state())
    besides = first_of(
        "recording is left switched on, for whatever runs next; a `with` block puts that back" if recorded else "",
        _in_words(kept.changes() or given.changes()),
        "" if x.grad_fn is history else "`x` itself was cut off from what came before it; cut off a tensor of your own",
        _other_mode(block, setting),
        _held(grad_x, block),
        "" if is_moved else _in_trace(traces.found(grad_x)),
        "" if earlier is None or torch.equal(*earlier) else "the gradient that an earlier call gave is another one now",
    )
    return {
        OF_X: grad_x,
        BLOCK_GRADS: _gradients(block),
        SOURCE: "none" if source.grad is None else "changed",
        RUNS: len(block.recorded),
        RANDOM: "moved" if is_moved else "as it was",
        BESIDES: besides,
    }


def _earlier(answer: Callable[..., Any], setting: BlockSetting) -> tuple[Tensor, Tensor] | None:
    """What the answer gives for another block, twice: as it is, and as it was when it came."""
    block, source, grad_y, state = _made(setting, seed=50)
    with torch.no_grad():
        grad_x = answer(block, source * 1.0, grad_y, state)
    return (grad_x, grad_x.clone()) if isinstance(grad_x, Tensor) else None


def recomputed(setting: BlockSetting) -> dict[str, Any]:
    """What is right: the gradients of a block whose forward pass was recorded."""
    block, source, grad_y, state = _made(setting)
    torch.set_rng_state(state)
    block(source).backward(grad_y)
    return {
        OF_X: source.grad,
        BLOCK_GRADS: _gradients(block),
        SOURCE: "none",
        RUNS: 1,
        RANDOM: "as it was",
        BESIDES: "",
    }


def second_run_was_recorded(answer: Callable[..., Any]) -> bool:
    """Whether the block ran recorded in this answer, however the answer ended."""
    block, source, grad_y, state = _made(BlockSetting())
    try:
        with torch.no_grad():
            answer(block, source * 1.0, grad_y, state)
    except Exception:
        pass
    return any(block.recorded)


def _gradients(block: nn.Module) -> dict[str, Any]:
    return {name: "none" if p.grad is None else p.grad.detach() for name, p in block.named_parameters()}


def _other_mode(block: Block, setting: BlockSetting) -> str:
    if all(mode == setting.training for mode in block.modes):
        return ""
    now, came = ("evaluation", "training") if setting.training else ("training", "evaluation")
    return f"the block ran in {now} mode, and it was handed over in {came} mode"


def _held(grad_x: Any, block: Block) -> str:
    grads = [grad_x, *(parameter.grad for parameter in block.parameters())]
    if any(isinstance(grad, Tensor) and grad.requires_grad for grad in grads):
        return "a gradient came out with a graph of its own behind it; nobody goes backward through it again"
    if block.activations.for_good():
        return (
            "the graph of the second run is still held, and its activations with it. The point of it all is that "
            "nothing of the block stays in memory"
        )
    return ""


def _in_trace(found: str) -> str:
    return f"your code {found}" if found else ""


def _in_words(change: str) -> str:
    return f"your code changed what it was given: {change}" if change else ""
