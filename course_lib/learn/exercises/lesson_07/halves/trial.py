"""What 07.halves looks at while an answer works: values after each call, when it multiplies, what it leaves behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_07.told import same_tensor
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.matmul_counter import Products

__all__ = ["EARLY", "UNTOUCHED", "HalvesPlan", "HalvesSeen", "right_halves", "try_halves"]

EARLY = "`weight.grad` has changed before anybody called `later()`"
UNTOUCHED = "`later()` leaves `weight.grad` as it was"
_ENOUGH = 1.5  # times the multiplications that a half needs: room for a factor here and there


@dataclass(frozen=True)
class HalvesPlan:
    """Sizes of a layer, how many such layers there are, and in which order the halves are called."""

    num_samples: int  # of micro-batch 0; each further one has a sample more
    num_inputs: int
    num_outputs: int
    order: str  # such as "I0 I1 W1 W0": first halves (I) and second halves (W), by micro-batch
    num_layers: int = 1  # micro-batch i goes through layer i % num_layers

    @property
    def steps(self) -> Iterator[tuple[str, int]]:
        return ((word[0], int(word[1:])) for word in self.order.split())

    @property
    def num_micro_batches(self) -> int:
        return self.order.count("I")

    def multiplications(self) -> int:
        """Those that the first halves need, and as many for the second halves."""
        size = self.num_inputs * self.num_outputs
        return sum((self.num_samples + i) * size for i in range(self.num_micro_batches))

    def inputs(self, i: int) -> tuple[Tensor, Tensor]:
        made = torch.Generator().manual_seed(100 * self.num_samples + 10 * self.num_inputs + i)
        shape = self.num_samples + i, self.num_inputs + self.num_outputs
        both = torch.randn(shape, generator=made, dtype=torch.float64)
        return both[:, : self.num_inputs].clone(), both[:, self.num_inputs :].clone()

    def weights(self) -> list[Tensor]:
        """One for each layer, with the gradient that an earlier batch has left."""
        made = torch.Generator().manual_seed(self.num_outputs)
        shape = self.num_layers, 2, self.num_outputs, self.num_inputs
        weights = []
        for weight, gradient in torch.randn(shape, generator=made, dtype=torch.float64):
            weights.append(weight.clone())
            weights[-1].grad = gradient.clone()
        return weights


@dataclass
class HalvesSeen:
    """What an answer did: ``after`` are the gradients of all weights, after each call of a ``later()``."""

    back: list[Any] = field(default_factory=list)
    after: list[list[Tensor]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what it changed against the contract, in words
    costs: list[str] = field(default_factory=list)  # what it spends without need
    no_pair: bool = False
    stays: bool = False  # no later() changed anything
    later_multiplies: bool = False  # as much as its gradient takes
    weight_grew: bool = False  # the weights hold what their gradients should
    early: bool = False  # the product of the second half is computed in the first


def right_halves(plan: HalvesPlan) -> HalvesSeen:
    """By autograd, on the layers in one piece."""
    parts = []
    seen, weights = HalvesSeen(), plan.weights()
    for i in range(plan.num_micro_batches):
        weight = weights[i % plan.num_layers].detach().requires_grad_()
        x, gradient = plan.inputs(i)
        x.requires_grad_()
        torch.nn.functional.linear(x, weight).backward(gradient)
        seen.back.append(x.grad)
        parts.append(_grad(weight))
    for half, i in plan.steps:
        if half == "W":
            gradients = list(map(_grad, weights))
            gradients[i % plan.num_layers].add_(parts[i])
            seen.after.append([each.clone() for each in gradients])
    return seen


def _grad(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad


def try_halves(answer: Callable[..., Any], plan: HalvesPlan) -> Any:
    """Call the halves in the plan's order, and look around after each of them."""
    run = _Run(answer, plan)
    for half, i in plan.steps:
        if half == "I" and not run.first(i):
            break
        if half == "W" and not run.second(i):
            break
    return run.untouched_stub or run.finished()


class _Run:
    def __init__(self, answer: Callable[..., Any], plan: HalvesPlan) -> None:
        self.answer, self.plan, self.seen = answer, plan, HalvesSeen()
        self.weights = plan.weights()
        self.inputs: dict[int, tuple[Tensor, Tensor]] = {}
        self.laters: dict[int, Callable[[], Any]] = {}
        self.work = {"I": 0, "W": 0}
        self.recorded = 0  # of the first halves: a forward, for whoever asks autograd for one gradient alone
        self.untouched_stub: Any = None

    def first(self, i: int) -> bool:
        self.inputs[i] = self.plan.inputs(i)
        before = self._gradients()
        with Products() as products:
            made = self.answer(*self.inputs[i], self.weights[i % self.plan.num_layers])
        self.work["I"] += products.multiplications
        self.recorded += products.recorded
        if made is ...:
            self.untouched_stub = ...
            return False
        if not isinstance(made, tuple | list) or len(made) != 2 or not callable(made[1]):
            self.seen.no_pair = True
            self.seen.notes.append(f"expected a tensor and a function, got {short(made)}")
            return False
        self.seen.back.append(_kept(made[0]))
        self.laters[i] = made[1]
        if not _same_gradients(before, self._gradients()):
            self._note(EARLY)
        self._look(i, "the first half")
        return True

    def second(self, i: int) -> bool:
        before = self._gradients()
        with Products() as products:
            self.laters.pop(i)()
        self.work["W"] += products.multiplications
        now = self._gradients()
        self.seen.after.append(now)
        if _same_gradients(before, now):
            self._note(UNTOUCHED)
        self._look(i, "`later()`")
        return True

    def finished(self) -> HalvesSeen:
        seen = self.seen
        if seen.no_pair:
            return seen
        seen.stays = _same_gradients(seen.after[-1], [w.grad for w in self.plan.weights()])
        seen.weight_grew = self._weights_grew()
        seen.later_multiplies = self.work["W"] >= self.plan.multiplications()
        self._judge_work()
        if self._outlives():
            seen.costs.append(
                "both halves of all micro-batches are done, and somebody still holds an `x` or a `gradient`, so that "
                "memory grows with each batch"
            )
        return seen

    def _note(self, text: str) -> None:
        if text not in self.seen.notes:
            self.seen.notes.append(text)

    def _gradients(self) -> list[Any]:
        return [None if weight.grad is None else weight.grad.clone() for weight in self.weights]

    def _look(self, i: int, where: str) -> None:
        """Whether what was handed in is as it was, and the switches too."""
        x, gradient = self.inputs[i]
        old_x, old_gradient = self.plan.inputs(i)
        old_weights = self.plan.weights()
        for name, now, before in (
            ("x", [x], [old_x]),
            ("gradient", [gradient], [old_gradient]),
            ("weight", self.weights, old_weights),
        ):
            if not same_tensor(now, before):
                self._note(f"{where} changes `{name}`, which is only to be read")
            if any(tensor.requires_grad for tensor in now):
                self._note(f"{where} leaves `{name}.requires_grad` switched on")
        if x.grad is not None or gradient.grad is not None:
            self._note(f"{where} leaves something in the `grad` of its inputs")
        if not torch.is_grad_enabled():
            torch.set_grad_enabled(True)
            self._note(f"{where} leaves autograd switched off for everybody")

    def _weights_grew(self) -> bool:
        """Whether the weights hold what their gradients should."""
        right = self.plan.weights()
        for i in range(self.plan.num_micro_batches):
            x, gradient = self.plan.inputs(i)
            right[i % self.plan.num_layers] += gradient.T @ x
        return all(map(torch.allclose, self.weights, right))

    def _judge_work(self) -> None:
        """Each half does its own product and no more; read from what PyTorch multiplied, and then from what came."""
        needed, (first, second) = self.plan.multiplications(), self.work.values()
        if self.seen.stays or self.plan.num_samples == 1 or EARLY in self.seen.notes:
            return
        if first - min(self.recorded, needed) > _ENOUGH * needed:
            self.seen.costs.append(f"the first half multiplies {first} numbers, where its gradient takes {needed}")
        if second > _ENOUGH * needed:
            self.seen.costs.append(f"`later()` multiplies {second} numbers, where its gradient takes {needed}")
        if second < needed / 2 and not self._reads_late():
            self.seen.early = True
            self.seen.costs.append(
                "`later()` adds a product that is there already: it was computed before anybody called it"
            )

    def _reads_late(self) -> bool:
        """Whether ``later()`` adds the product of what `x` and `gradient` hold when it is called."""
        (x, gradient), weight = self.plan.inputs(0), self.plan.weights()[0]
        before = _grad(weight).clone()
        later = self.answer(x, gradient, weight)[1]
        x += 1
        gradient -= 2
        later()
        return weight.grad is None or torch.allclose(weight.grad - before, gradient.T @ x)

    def _outlives(self) -> bool:
        held = [weakref.ref(tensor) for pair in self.inputs.values() for tensor in pair]
        self.inputs.clear()
        self.laters.clear()
        if any(ref() is not None for ref in held):
            gc.collect()  # a function that knows itself is a ring; nobody holds it
        return any(ref() is not None for ref in held)


def _kept(made: Any) -> Any:
    """A copy of a gradient as it is now; lists as tensors of the type that was handed in."""
    if isinstance(made, list | tuple):
        return torch.tensor(made, dtype=torch.float64)
    return made.detach().clone() if isinstance(made, Tensor) else made


def _same_gradients(one: list[Any], other: list[Any]) -> bool:
    return all(
        a is b is None or (a is not None and b is not None and same_tensor(a, b))
        for a, b in zip(one, other, strict=True)
    )
