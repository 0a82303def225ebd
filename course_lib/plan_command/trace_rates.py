"""What a trace of ``torch.profiler`` says of the machine that it was recorded on: products by shape, calls by size.

A product is an operator with shapes (``record_shapes=True``) and the kernels that name it as theirs by ``External id``.
A call is a kernel of NCCL that says its collective, its numbers and its group, as PyTorch 2.3 and later write them. Of
calls of one size the shortest counts: a longer one has waited for a rank that came late.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.traces.collectives import collective_of, input_bytes, is_communication
from course_lib.traces.json_stream import TraceFileError, events_of

__all__ = ["CallRate", "ProductRate", "TraceRates", "rates_of_events", "read_rates"]

MOST_EVENTS = 4_000_000
_LARGEST = 1 << 40  # of a size that is believed
_HALVES = ("c10::bfloat16", "c10::half", "bfloat16", "half")
# Where an operator's two matrices stand among its inputs.
_PRODUCTS = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
# Times the buffer of a group of n that each rank sends, in (n-1)/n of it.
_TIMES_SENT = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


@dataclass
class ProductRate:
    """Products of one shape, (times, rows, inner, outer): how many, and how long their kernels took together."""

    shape: tuple[int, int, int, int]
    count: int = 0
    seconds: float = 0.0

    @property
    def flops(self) -> float:
        """Of one of them."""
        times, rows, inner, outer = self.shape
        return 2.0 * times * rows * inner * outer

    @property
    def moved_bytes(self) -> float:
        """Of one of them, two bytes a number."""
        times, rows, inner, outer = self.shape
        return 2.0 * times * (rows * inner + inner * outer + rows * outer)

    @property
    def flops_per_s(self) -> float:
        """What they reached."""
        return self.count * self.flops / self.seconds


@dataclass
class CallRate:
    """Calls of one collective with buffers of one size in one group: how many, and the shortest."""

    operation: str
    size_bytes: int
    ranks: tuple[int, ...]  # empty where the trace tells how many they are alone
    group_size: int
    count: int = 0
    shortest_s: float = float("inf")

    @property
    def bus_bytes_per_s(self) -> float:
        """What each rank sent in a second."""
        sent = _TIMES_SENT[self.operation] * (self.group_size - 1) / self.group_size * self.size_bytes
        return sent / self.shortest_s


@dataclass
class TraceRates:
    """Of a trace. ``kernels``: how many a GPU ran; ``unsized_calls``: those of NCCL that do not tell size and group."""

    products: dict[tuple[int, int, int, int], ProductRate] = field(default_factory=dict)
    calls: dict[tuple[object, ...], CallRate] = field(default_factory=dict)
    kernels: int = 0
    unsized_calls: int = 0


def read_rates(path: Path) -> TraceRates:
    """The rates of a trace's file. ValueError for one that cannot be read, is none, or holds no kernel of a GPU."""
    if path.suffix.lower() == ".csv":
        raise ValueError(
            f"--from is {str(path)!r}, a table, and a table has no shapes of products. Give the JSON that "
            "torch.profiler wrote."
        )
    try:
        found = rates_of_events(value for name, value in events_of(path) if name == "traceEvents")
    except TraceFileError as error:
        raise ValueError(f"--from is {str(path)!r}: {error}.") from None
    except OSError as error:
        raise ValueError(f"--from is {str(path)!r}, which cannot be read: {error.strerror or error}.") from None
    if not found.kernels:
        raise ValueError(
            f"--from is {str(path)!r}, and none of its events is a kernel of a GPU. Record it on a GPU, with "
            "ProfilerActivity.CUDA."
        )
    return found


def rates_of_events(events: Iterable[Any]) -> TraceRates:
    """The rates of a trace's events, in any order; what is no event, or has no times, counts for nothing.

    Raises:
        TraceFileError: They are more than ``MOST_EVENTS``.
    """
    rates = TraceRates()
    shapes: dict[int, tuple[int, int, int, int]] = {}
    seconds: dict[int, float] = {}
    for count, event in enumerate(events):
        if count >= MOST_EVENTS:
            raise TraceFileError(f"it holds more than {MOST_EVENTS:,} events, and this command reads at most that many")
        if not isinstance(event, dict) or not isinstance(event.get("args"), dict):
            continue
        args, name = event["args"], str(event.get("name", ""))
        if event.get("cat") == "cpu_op" and name in _PRODUCTS:
            shape, own = _shape_of(name, args), _number_of(args)
            if shape is not None and own is not None:
                shapes[own] = shape
        elif event.get("cat") == "kernel" and (took_s := _seconds_of(event)):
            rates.kernels += 1
            if is_communication(name):
                _take_call(rates, name, args, took_s)
            elif (own := _number_of(args)) is not None:
                seconds[own] = seconds.get(own, 0.0) + took_s
    for own, shape in shapes.items():
        if own in seconds:
            one = rates.products.setdefault(shape, ProductRate(shape))
            one.count += 1
            one.seconds += seconds[own]
    return rates


def _seconds_of(event: Mapping[str, Any]) -> float:
    """Of a kernel; 0 where it has none that is a number."""
    took = event.get("dur")
    if isinstance(took, bool) or not isinstance(took, int | float) or not 0 < took < 1e12:
        return 0.0
    return took / 1e6


def _number_of(args: Mapping[str, Any]) -> int | None:
    """That by which an operator and its kernels know each other."""
    number = args.get("External id")
    return number if type(number) is int else None


def _shape_of(name: str, args: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """(times, rows, inner, outer) of a product of two-byte numbers; None where it is another, or not told."""
    dims, types, first = args.get("Input Dims"), args.get("Input type"), _PRODUCTS[name]
    if not isinstance(dims, list) or not isinstance(types, list) or min(len(dims), len(types)) < first + 2:
        return None
    left, right = dims[first], dims[first + 1]
    if str(types[first]).lower() not in _HALVES or not _are_sizes(left) or not _are_sizes(right):
        return None
    if len(left) == len(right) == 2 and left[1] == right[0]:
        return 1, left[0], left[1], right[1]
    if len(left) == len(right) == 3 and left[0] == right[0] and left[2] == right[1]:
        return left[0], left[1], left[2], right[2]
    return None


def _are_sizes(dims: Any) -> bool:
    return isinstance(dims, list) and all(type(size) is int and 0 < size < _LARGEST for size in dims)


def _take_call(rates: TraceRates, name: str, args: Mapping[str, Any], took_s: float) -> None:
    operation, sent_bytes, size = collective_of(name, args), input_bytes(args), args.get("Group size")
    if operation not in _TIMES_SENT or not sent_bytes or not isinstance(size, int) or not 1 < size < _LARGEST:
        rates.unsized_calls += 1
        return
    size_bytes = sent_bytes * size if operation == "all_gather" else sent_bytes
    ranks = _ranks_of(args.get("Process Group Ranks"), size)
    key = operation, size_bytes, ranks, size
    one = rates.calls.setdefault(key, CallRate(operation, size_bytes, ranks, size))
    one.count += 1
    one.shortest_s = min(one.shortest_s, took_s)


def _ranks_of(told: Any, size: int) -> tuple[int, ...]:
    """The ranks of a group; none where the trace shortens the list, as it does for large ones."""
    try:
        ranks = json.loads(told) if isinstance(told, str) else told
    except (ValueError, RecursionError):
        return ()
    if not isinstance(ranks, list) or len(ranks) != size or not all(type(rank) is int for rank in ranks):
        return ()
    return tuple(sorted(ranks))
