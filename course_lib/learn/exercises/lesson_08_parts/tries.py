"""What a trial of lesson 08 reports of an answer: its output, all gradients, and what was sent forward and backward.

All numbers are float64, and the same whole matrices are made on every rank, which then takes its part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _in_words(calls: Sequence[Call]) -> str:
    return ", ".join(f"{call.operation} of {call.size_bytes} bytes" for call in calls) or "nothing"
