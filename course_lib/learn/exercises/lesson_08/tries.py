"""What a trial of lesson 08 reports of an answer: its output, all gradients, what was sent, and how all was left.

All numbers are float64, and the same whole matrices are made on every rank, which then takes its part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil, prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS, StepSeen
from course_lib.meter import Call

__all__ = [
    "ALIVE",
    "BACKWARD",
    "CALLED",
    "FORWARD",
    "HANDED",
    "HANDED_IN",
    "LEFT",
    "NOTHING",
    "OUTPUT",
    "SENT_BACK",
    "UNWAITED",
    "WIDE",
    "SumBothWays",
    "all_reduce_of",
    "gradient_of",
    "in_words",
    "leaf",
    "made",
    "manners",
    "manners_of",
    "reported",
    "ring_bytes",
    "seen_report",
    "weighted_sum",
]

OUTPUT, FORWARD, BACKWARD = "the output", "sent forward", "sent backward"
HANDED_IN, SENT_BACK = "numbers a position handed in", "numbers a position sent back"
UNWAITED, HANDED, LEFT = "never waited for", "what it was given, afterwards", "left behind"
ALIVE, CALLED = "tensors that each step keeps alive", "ready-made functions called"
WIDE = "tensors of all positions that are kept"
NOTHING = "nothing"


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
    generator = torch.Generator().manual_seed(sum(i * ord(letter) for i, letter in enumerate(name, 1)))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def leaf(tensor: Tensor, me: Rank, *, is_frozen: bool = False) -> Tensor:
    """A copy on the rank's device that collects its gradient, unless it is frozen."""
    copied = tensor.to(me.device, copy=True, memory_format=torch.contiguous_format)
    return copied.requires_grad_(not is_frozen)


def gradient_of(name: str) -> str:
    """Under which word a gradient is reported."""
    return f"the gradient of {name}"


def weighted_sum(output: Tensor) -> Tensor:
    """A loss in which no two numbers of the output weigh the same, and which every rank computes alike."""
    weights = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).view(output.shape)
    return (output * weights.to(output.device)).sum()


def all_reduce_of(*shape: int) -> str:
    """How an all-reduce of this shape is reported."""
    return f"all_reduce of {8 * prod(shape)} bytes"


def reported(
    output: Any,
    gradients: Mapping[str, Any],
    forward: str,
    backward: str,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report, in the order in which a difference is looked for."""
    named = {gradient_of(name): gradient for name, gradient in gradients.items()}
    return {OUTPUT: output, **named, FORWARD: forward, BACKWARD: backward, **(more or manners())}


def seen_report(seen: StepSeen, num_ranks: int, num_summed: int, *, whole_tensors: bool = True) -> dict[str, Any]:
    """The report of what was seen, where ``num_summed`` numbers are to be all-reduced; outputs become one tensor.

    ``whole_tensors``: a sum may also be made of a reduce and a broadcast, which go through one rank.
    """
    if isinstance(seen.outputs, str):
        return {OUTPUT: seen.outputs, CALLED: seen.ready_made}
    outputs = seen.outputs[0] if len(seen.outputs) == 1 else torch.cat([one.flatten() for one in seen.outputs])
    most_bytes = 2 * (num_ranks - 1) * 8 * ceil(num_summed / num_ranks)
    made_of = set(_SENT_IN_A_RING) - (set() if whole_tensors else {"reduce", "broadcast"})
    there, back = (_in_words(calls, num_summed, most_bytes, made_of) for calls in (seen.forward, seen.backward))
    return reported(outputs, seen.gradients, there, back, manners_of(seen))


def manners(unwaited: str = "", handed: str = AS_IT_WAS, left: str = "", alive: int = 0) -> dict[str, Any]:
    """The end of a report: how all was left."""
    return {UNWAITED: unwaited or NOTHING, HANDED: handed, LEFT: left or NOTHING, ALIVE: alive}


def manners_of(seen: StepSeen) -> dict[str, Any]:
    """The end of a report, from what was seen."""
    return {**manners(seen.unwaited, seen.handed, seen.left, seen.kept_alive), CALLED: seen.ready_made}


def _in_words(calls: Sequence[Call], num_summed: int, most_bytes: int, made_of: Collection[str]) -> str:
    """Each call with its size; but an all-reduce that is made of others, and sends no more than that, is named so."""
    sent = ring_bytes(calls)
    are_parts = bool(calls) and all(call.operation in made_of for call in calls)
    return all_reduce_of(num_summed) if are_parts and sent is not None and sent <= most_bytes else in_words(calls)


def ring_bytes(calls: Sequence[Call]) -> float | None:
    """What a rank sends in these parts of an all-reduce, by rings; None where there are others among them."""
    if any(call.operation not in _SENT_IN_A_RING for call in calls):
        return None
    return round(sum(_SENT_IN_A_RING[call.operation](call) * call.size_bytes for call in calls), 3)


def in_words(calls: Sequence[Call]) -> str:
    """Each call with its size."""
    return ", ".join(map(_call_in_words, calls)) or NOTHING


def _call_in_words(call: Call) -> str:
    return f"{call.operation} of {call.size_bytes} bytes" if call.size_bytes else call.operation


_SENT_IN_A_RING: dict[str, Callable[[Call], float]] = {  # of what a rank hands in
    "reduce_scatter": lambda call: 1 - 1 / len(call.group),
    "all_to_all": lambda call: 1 - 1 / len(call.group),
    "all_gather": lambda call: len(call.group) - 1,
    "reduce": lambda call: call.root != call.rank,
    "broadcast": lambda call: call.root == call.rank,
    "gather": lambda call: call.root != call.rank,
    "scatter": lambda call: (1 - 1 / len(call.group)) * (call.root == call.rank),
    "send": lambda call: 1,
    "recv": lambda call: 0,
}
