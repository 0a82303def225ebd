"""What a trial of lesson 08 reports of an answer: its output, all gradients, and what was sent forward and backward.

All numbers are float64, and the same whole matrices are made on every rank, which then takes its part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.meter import Call

__all__ = [
    "BACKWARD",
    "FORWARD",
    "OUTPUT",
    "SplitMlp",
    "SumBothWays",
    "both_ways",
    "gradient_of",
    "leaf",
    "made",
    "reported",
    "weights_of",
]

OUTPUT, FORWARD, BACKWARD = "the output", "sent forward", "sent backward"


class SumBothWays(torch.autograd.Function):
    """An all-reduce forward and another backward, as ``torch.distributed.nn`` has it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


def made(name: str, *shape: int) -> Tensor:
    """A tensor of this name, the same wherever it is made."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def leaf(tensor: Tensor, me: Rank) -> Tensor:
    """A copy on the rank's device that collects its gradient."""
    return tensor.to(me.device, copy=True, memory_format=torch.contiguous_format).requires_grad_()


def gradient_of(name: str) -> str:
    """Under which word a gradient is reported."""
    return f"the gradient of {name}"


def weights_of(output: Tensor) -> Tensor:
    """What the output is multiplied by before it is summed up to a loss: no two numbers alike."""
    return torch.cos(torch.arange(output.numel(), dtype=torch.float64)).view(output.shape).to(output.device)


def both_ways(me: Rank, run: Callable[[], Any], leaves: Mapping[str, Tensor]) -> Any:
    """Run forward, then backward from a loss that every rank computes alike; what came, and what was sent."""
    from course_lib.meter.recorder import Recorder

    with Recorder(me.rank) as there:
        output = run()
    if not isinstance(output, Tensor):
        return output
    with Recorder(me.rank) as back:
        if output.requires_grad:
            (output * weights_of(output)).sum().backward()
    gradients = {name: "none came" if one.grad is None else one.grad.cpu() for name, one in leaves.items()}
    return reported(output.detach().cpu(), gradients, _in_words(there.calls), _in_words(back.calls))


def reported(output: Any, gradients: Mapping[str, Any], forward: str, backward: str) -> dict[str, Any]:
    """The report, in the order in which a difference is looked for."""
    named = {gradient_of(name): gradient for name, gradient in gradients.items()}
    return {OUTPUT: output, **named, FORWARD: forward, BACKWARD: backward}


@dataclass(frozen=True)
class SplitMlp:
    """An MLP, with what may stand around it, cut by hidden units: rows of ``w_up`` and ``b_up``, columns of ``w_down``.

    ``forward(*tensors)`` is the unsplit computation of the tensors that ``shapes`` names, in this order; what is not
    named above is whole on every rank. ``sent`` is what travels forward, and again backward.
    """

    shapes: Mapping[str, tuple[int, ...]]
    forward: Callable[..., Tensor]
    sent: str

    def whole(self) -> dict[str, Tensor]:
        return {name: made(name, *shape) for name, shape in self.shapes.items()}

    @staticmethod
    def parts(rank: int, n: int, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a rank has of each."""
        cut = {"w_up": 0, "b_up": 0, "w_down": 1}
        return {name: one.chunk(n, cut[name])[rank] if name in cut else one for name, one in of.items()}

    def trial(self, answer: Callable[..., Any], me: Rank) -> Any:
        """``answer(me, *parts)`` on a rank."""
        parts = self.parts(me.rank, me.world_size, self.whole())
        leaves = {name: leaf(part, me) for name, part in parts.items()}
        return both_ways(me, lambda: answer(me, *leaves.values()), leaves)

    def right(self, rank: int, world_size: int) -> dict[str, Any]:
        """The report that one process would give, and of its gradients this rank's parts."""
        whole = {name: tensor.requires_grad_() for name, tensor in self.whole().items()}
        output = self.forward(*whole.values())
        (output * weights_of(output)).sum().backward()
        gradients = {name: tensor.grad for name, tensor in whole.items() if tensor.grad is not None}
        return reported(output.detach(), self.parts(rank, world_size, gradients), self.sent, self.sent)


def _in_words(calls: Sequence[Call]) -> str:
    return ", ".join(f"{call.operation} of {call.size_bytes} bytes" for call in calls) or "nothing"
