"""What a block along positions is tried on: a norm on a rank's own positions, a split MLP on all, a residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import (
    CALLED,
    OUTPUT,
    WIDE,
    in_words,
    leaf,
    made,
    manners,
    manners_of,
    reported,
    ring_bytes,
    weighted_sum,
)
from course_lib.meter import Call

__all__ = ["CASES", "LIBRARY", "trial"]

_NARROW = "one tensor of all positions"

LIBRARY = "course_lib.parallel.tensor.layers.SequenceParallelNorm"
_FORWARD, _BACKWARD = (
    "all-gather and reduce-scatter",
    "all-gather, reduce-scatter and a sum as small as the norm",
)
_CUT_DIM = {"x": 0, "w_up": 0, "w_down": 1}  # positions, hidden units; the norm is whole on every rank


@dataclass(frozen=True)
class _Sizes:
    label: str
    positions_a_rank: int
    width: int
    units_a_rank: int
    frozen: frozenset[str] = field(default_factory=frozenset)

    def whole(self, world_size: int, number: int) -> dict[str, Tensor]:
        """All positions and all weights, by name."""
        units, width = self.units_a_rank * world_size, self.width
        shapes = {
            "x": (self.positions_a_rank * world_size, width),
            "norm_weight": (width,),
            "w_up": (units, width),
            "w_down": (width, units),
        }
        return {name: made(f"{name} {number}", *shape) for name, shape in shapes.items()}


_SIZES = (
    _Sizes("3 positions a rank, 4 wide, 2 hidden units a rank", 3, 4, 2),
    _Sizes("1 position a rank, 6 wide, 3 hidden units a rank", 1, 6, 3),
    _Sizes("2 positions a rank, matrices that are frozen", 2, 5, 2, frozenset({"w_up", "w_down"})),
)


def trial(answer: Callable[..., Any], me: Rank, sizes: _Sizes) -> dict[str, Any]:
    """The report of an answer on this rank."""
    wide: set[int] = set()
    seen = seen_again(partial(_step, answer, me, sizes, wide), me.world_size)
    if isinstance(seen.outputs, str):
        return {OUTPUT: seen.outputs, CALLED: seen.ready_made}
    n = me.world_size
    stream_bytes = 2 * (n - 1) * 8 * sizes.positions_a_rank * sizes.width  # by a ring, of a gather and a scatter
    norm_bytes = 8 * (n - 1) * max(sizes.width, 2 * ceil(sizes.width / n))  # gathered and added up, or by a ring
    there = _in_words(seen.forward, _FORWARD, stream_bytes)
    back = _in_words(seen.backward, _BACKWARD, stream_bytes + norm_bytes)
    return reported(seen.outputs[0], seen.gradients, there, back, {WIDE: _kept(len(wide)), **manners_of(seen)})


def _kept(number: int) -> str:
    """What is told of so many tensors of all positions: the input of ``w_up`` is one."""
    return _NARROW if number < 2 else f"{number} tensors of all positions for the backward pass; one is enough"


def _step(answer: Callable[..., Any], me: Rank, sizes: _Sizes, wide: set[int], number: int) -> StepSeen:
    parts = _parts(me.rank, me.world_size, sizes.whole(me.world_size, number))
    leaves = {name: leaf(part, me, is_frozen=name in sizes.frozen) for name, part in parts.items()}
    handed = {**leaves, "x": leaves["x"] * 1.0}  # x comes from the layers before, weights are leaves
    run = partial(answer, me, *handed.values())
    with _noting(wide, (sizes.positions_a_rank * me.world_size, sizes.width), on=number == 0):
        return take_step(me, run, leaves, handed, weighted_sum, (LIBRARY, *READY_MADE))


def _noting(wide: set[int], shape: tuple[int, int], *, on: bool) -> Any:
    """Where tensors of this shape lie that autograd keeps. In the first of two steps: hooks change what keeps what."""

    def keep(tensor: Tensor) -> Tensor:
        if tuple(tensor.shape) == shape:
            wide.add(tensor.data_ptr())
        return tensor.detach()

    return torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept) if on else nullcontext()


def _in_words(calls: Sequence[Call], needed: str, most_bytes: int) -> str:
    n = len(calls[0].group) if calls else 1
    sums = [call for call in calls if call.operation == "all_reduce"]
    parts = ring_bytes([call for call in calls if call.operation != "all_reduce"])
    sent = None if parts is None else parts + sum(2 * (n - 1) / n * call.size_bytes for call in sums)
    return needed if calls and sent is not None and sent <= most_bytes else in_words(calls)


def _right(sizes: _Sizes) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right block, from all positions in one process; every rank's output counts in the loss."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        whole = sizes.whole(world_size, 1)
        for name, tensor in whole.items():
            tensor.requires_grad_(name not in sizes.frozen)
        outputs = _block(**whole).chunk(world_size)
        sum(weighted_sum(output) for output in outputs).backward()  # type: ignore[union-attr]
        learning = {name: tensor.grad for name, tensor in whole.items() if tensor.grad is not None}
        parts = _parts(rank, world_size, learning)
        gradients = {name: parts.get(name, NO_GRADIENT) for name in whole}
        return reported(outputs[rank].detach(), gradients, _FORWARD, _BACKWARD, {WIDE: _NARROW, **manners()})

    return expected


def _block(x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    h = F.layer_norm(x, (x.size(-1),), norm_weight)
    return x + F.linear(F.gelu(F.linear(h, w_up)), w_down)


def _parts(rank: int, n: int, of: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.chunk(n, _CUT_DIM[name])[rank] if name in _CUT_DIM else one for name, one in of.items()}


CASES = tuple(Case(sizes.label, (sizes,), _right(sizes)) for sizes in _SIZES)
