"""What tensor parallelism sends, and how long that takes. (What it keeps in memory: ``tensor_parallel_memory.py``.)

A transformer block that is cut among n ranks enters and leaves a split region twice, once for attention and once for
the MLP. Each time the stream of B T D numbers crosses a gate: forward one all-reduce, backward one. With sequence
parallelism an all-reduce is a reduce-scatter at one gate and an all-gather at the other, which together send the same.

Sources: Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.collectives.collective_cost import bus_factor, collective_cost
from course_lib.cost.collectives.network import Network
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.link import Link

__all__ = [
    "SplitCollective",
    "block_collectives",
    "collectives_sent_bytes",
    "collectives_time_s",
    "split_transformer_collectives",
]


@dataclass(frozen=True)
class SplitCollective:
    """One collective of a training step. ``size_bytes`` is the whole buffer, as in ``collective_cost``."""

    where: str  # "attention", "norm1 gradients"
    is_backward: bool
    collective: str
    size_bytes: int

    def sent_bytes(self, num_ranks: int) -> float:
        """What each rank sends by a ring. gloo's reduce_scatter sends twice that: it is an all-reduce inside."""
        return bus_factor(self.collective, num_ranks) * self.size_bytes


@checked
def block_collectives(
    config: TransformerSizes,
    *,
    batch_size: int,
    length: int | None = None,
    sequence_parallel: bool = False,
    regather: bool = False,
    itemsize: int = 4,
) -> tuple[SplitCollective, ...]:
    """The collectives of one block, forward and then backward, in the order in which they start.

    ``regather`` gathers a region's input anew in the backward pass (an extra all-gather there). With
    ``sequence_parallel`` what all ranks hold and use on their own positions (norms, and the biases of ``w_out`` and
    ``w_down``) has its gradients all-reduced: small messages, which cost latency.
    """
    length = config.context_length if length is None else length
    at_least(1, batch_size=batch_size, length=length, itemsize=itemsize)
    stream_bytes = itemsize * batch_size * length * config.width
    column_bytes = itemsize * config.width
    calls = []
    for where in ("attention", "MLP"):
        calls += _enter(where, stream_bytes, sequence_parallel)
        calls += _leave(where, stream_bytes, sequence_parallel)
    for where, norm in (("MLP", "norm2"), ("attention", "norm1")):
        if sequence_parallel and config.bias:
            calls.append(SplitCollective(f"{where} bias gradient", True, "all_reduce", column_bytes))
        calls += _leave_backward(where, stream_bytes, sequence_parallel)
        calls += _enter_backward(where, stream_bytes, sequence_parallel, regather)
        if sequence_parallel:
            norm_bytes = column_bytes * (1 + config.bias)
            calls.append(SplitCollective(f"{norm} gradients", True, "all_reduce", norm_bytes))
    return tuple(calls)


@checked
def split_transformer_collectives(
    config: TransformerSizes,
    *,
    batch_size: int,
    length: int | None = None,
    sequence_parallel: bool = False,
    regather: bool = False,
    itemsize: int = 4,
) -> tuple[SplitCollective, ...]:
    """The collectives of a training step of the whole model with its vocabulary-parallel loss: forward, then backward.

    The loss sends three numbers a position, of float32 at least, and no logits.
    """
    length = config.context_length if length is None else length
    block = block_collectives(
        config,
        batch_size=batch_size,
        length=length,
        sequence_parallel=sequence_parallel,
        regather=regather,
        itemsize=itemsize,
    )
    at_least(1, batch_size=batch_size, length=length, itemsize=itemsize)
    stream_bytes = itemsize * batch_size * length * config.width
    number_bytes = max(itemsize, 4) * batch_size * length
    forward = [
        *_leave("stem", stream_bytes, sequence_parallel),
        *[call for call in block if not call.is_backward] * config.num_layers,
        *_enter("head", stream_bytes, sequence_parallel),
        SplitCollective("loss: largest logits", False, "all_reduce", number_bytes),
        SplitCollective("loss: sums and targets", False, "all_reduce", 2 * number_bytes),
    ]
    backward = _enter_backward("head", stream_bytes, sequence_parallel, regather)
    if sequence_parallel:
        norm_bytes = itemsize * config.width * (1 + config.bias)
        backward.append(SplitCollective("head norm gradients", True, "all_reduce", norm_bytes))
    backward += [call for call in block if call.is_backward] * config.num_layers
    if sequence_parallel:
        positions_bytes = itemsize * length * config.width
        backward.append(SplitCollective("positions", True, "all_gather", positions_bytes))
        backward += _leave_backward("stem", stream_bytes, sequence_parallel)
    return (*forward, *backward)


@checked
def collectives_sent_bytes(calls: Iterable[SplitCollective], num_ranks: int) -> float:
    """What each rank sends in all of ``calls``, by rings."""
    at_least(1, num_ranks=num_ranks)
    return sum(call.sent_bytes(num_ranks) for call in calls)


@checked
def collectives_time_s(
    calls: Iterable[SplitCollective], network: Network | Link, *, num_ranks: int | None = None
) -> float:
    """How long ``calls`` take one after the other. Nothing is taken off for what overlaps with arithmetic: in a block
    only an input's gradient can hide, behind the gradient of a weight.

    ``network`` is a ``Network``, or a ``Link`` and ``num_ranks``.
    """
    return sum(collective_cost(call.collective, call.size_bytes, network, num_ranks=num_ranks).time_s for call in calls)


def _enter(where: str, size_bytes: int, sequence_parallel: bool) -> list[SplitCollective]:
    return [SplitCollective(where, False, "all_gather", size_bytes)] if sequence_parallel else []


def _leave(where: str, size_bytes: int, sequence_parallel: bool) -> list[SplitCollective]:
    name = "reduce_scatter" if sequence_parallel else "all_reduce"
    return [SplitCollective(where, False, name, size_bytes)]


def _leave_backward(where: str, size_bytes: int, sequence_parallel: bool) -> list[SplitCollective]:
    return [SplitCollective(where, True, "all_gather", size_bytes)] if sequence_parallel else []


def _enter_backward(where: str, size_bytes: int, sequence_parallel: bool, regather: bool) -> list[SplitCollective]:
    if not sequence_parallel:
        return [SplitCollective(where, True, "all_reduce", size_bytes)]
    again = [SplitCollective(f"{where} input, anew", True, "all_gather", size_bytes)] if regather else []
    return [*again, SplitCollective(where, True, "reduce_scatter", size_bytes)]
