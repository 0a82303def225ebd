"""An MLP, with what may stand around it, cut by hidden units: what 08.mlp and 08.norm try an answer on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import all_reduce_of, leaf, made, reported, seen_report, weighted_sum

__all__ = ["Sizes", "SplitMlp"]


@dataclass(frozen=True)
class Sizes:
    """One situation: ``num_rows`` rows of ``width`` features, ``num_units`` hidden units on each rank."""

    label: str
    num_rows: int
    width: int
    num_units: int
    frozen: frozenset[str] = field(default_factory=frozenset)

    @property
    def num_summed(self) -> int:
        """The numbers in the output, which are all-reduced."""
        return self.num_rows * self.width


@dataclass(frozen=True)
class SplitMlp:
    """``forward(*tensors)`` is the unsplit computation of the tensors that ``shapes`` names, in this order.

    A shape is a text of N (rows), D (width) and H (hidden units); what has an H is cut there, the rest is whole on
    every rank.
    """

    shapes: Mapping[str, str]
    forward: Callable[..., Tensor]
    not_to_call: tuple[str, ...] = ()

    def case(self, sizes: Sizes) -> Case:
        return Case(sizes.label, (sizes,), partial(self.right, sizes))

    def trial(self, answer: Callable[..., Any], me: Rank, sizes: Sizes) -> Any:
        """The report of ``answer(me, *parts)`` on a rank."""
        seen = seen_again(partial(self._step, answer, me, sizes), me.world_size)
        return seen_report(seen, me.world_size, sizes.num_summed)

    def right(self, sizes: Sizes, rank: int, world_size: int) -> dict[str, Any]:
        """The report that one process would give, and of its gradients this rank's parts."""
        whole = self._whole(sizes, world_size, 1)
        for name, tensor in whole.items():
            tensor.requires_grad_(name not in sizes.frozen)
        output = self.forward(*whole.values())
        weighted_sum(output).backward()
        learning = {name: tensor.grad for name, tensor in whole.items() if tensor.grad is not None}
        parts = self._parts(rank, world_size, learning)
        gradients = {name: parts.get(name, NO_GRADIENT) for name in whole}
        sent = all_reduce_of(sizes.num_summed)
        return reported(output.detach(), gradients, sent, sent)

    def _step(self, answer: Callable[..., Any], me: Rank, sizes: Sizes, number: int) -> StepSeen:
        parts = self._parts(me.rank, me.world_size, self._whole(sizes, me.world_size, number))
        leaves = {name: leaf(part, me, is_frozen=name in sizes.frozen) for name, part in parts.items()}
        handed = {**leaves, "x": leaves["x"] * 1.0}  # x comes from the layers before, weights are leaves
        run = partial(answer, me, *handed.values())
        return take_step(me, run, leaves, handed, weighted_sum, self.not_to_call)

    def _whole(self, sizes: Sizes, world_size: int, number: int) -> dict[str, Tensor]:
        size_of = {"N": sizes.num_rows, "D": sizes.width, "H": sizes.num_units * world_size}
        return {
            name: made(f"{name} {number}", *(size_of[letter] for letter in shape))
            for name, shape in self.shapes.items()
        }

    def _parts(self, rank: int, n: int, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a rank has of each."""
        return {
            name: one.chunk(n, self.shapes[name].index("H"))[rank] if "H" in self.shapes[name] else one
            for name, one in of.items()
        }
