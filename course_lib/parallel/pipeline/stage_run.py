"""One stage of a pipeline during one batch: what it does with a micro-batch, and what it keeps until the backward.

What is kept for a micro-batch is its input and the place in autograd's graph where the backward will begin. The
output's values are not kept: they travel, and the graph has saved what it needs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from course_lib.parallel.pipeline.split_backward import backward_for_inputs
from course_lib.schedules.action import KINDS, Action

__all__ = ["StageFailed", "StageRun"]


class StageFailed(RuntimeError):
    """A stage raised; the message says which one and in which action, and the cause is what it raised."""


class _Saved(NamedTuple):
    """What a forward leaves for its backward."""

    entered: Tensor
    begin: GradientEdge | None  # None: nothing in here, nor before, wants a gradient


class StageRun:
    """A stage with its micro-batches, by their numbers.

    Filled from outside: ``inputs`` and ``gradients`` before the action that needs them; on the last stage, ``targets``.
    An input is a leaf of autograd's graph and requires a gradient where the stage before waits for one. What is made
    here is taken from ``outputs`` and ``input_gradients``; a gradient that nobody waits for is not among them.
    """

    def __init__(
        self,
        stage: int,
        module: nn.Module,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        *,
        with_backward: bool,
    ) -> None:
        self.stage, self.module, self.with_backward = stage, module, with_backward
        self._loss_of = loss_of
        self._do = {
            "F": self._forward,
            "B": self._backward,
            "I": self._backward_inputs,
            "W": self._backward_weights,
        }
        self.inputs: dict[int, Tensor] = {}
        self.gradients: dict[int, Tensor] = {}  # of the outputs
        self.targets: Sequence[Tensor] = ()
        self.outputs: dict[int, Tensor] = {}
        self.input_gradients: dict[int, Tensor] = {}
        self.losses: list[Tensor] = []  # their sum is the mean loss of the batch
        self.peak_in_flight = 0
        self._saved: dict[int, _Saved] = {}
        self._for_weights: dict[int, Callable[[], None]] = {}

    def run(self, action: Action) -> None:
        """Run one action. Whatever goes wrong in it bears the name of the stage."""
        try:
            self._do[action.kind](action.micro_batch)
        except Exception as error:
            raise StageFailed(
                f"stage {self.stage} failed in the {KINDS[action.kind]} of micro-batch {action.micro_batch}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def expect_forward(self) -> None:
        """Count a micro-batch that is about to be in flight."""
        if self.with_backward:
            num_in_flight = len(self._saved) + len(self._for_weights) + 1
            self.peak_in_flight = max(self.peak_in_flight, num_in_flight)

    # -- the four actions ---------------------------------------------------------------------------------------

    def _forward(self, i: int) -> None:
        entered = self.inputs.pop(i)
        self.expect_forward()
        left: Tensor = self.module(entered)
        if self.targets:  # the last stage: from here it goes back
            left = self._loss(left, i)
            self.losses.append(left.detach())
        else:
            self.outputs[i] = left.detach().requires_grad_(left.requires_grad)
        if self.with_backward:
            self._saved[i] = _Saved(entered, get_gradient_edge(left) if left.requires_grad else None)

    def _loss(self, output: Tensor, i: int) -> Tensor:
        """The part of a micro-batch in the batch's mean loss: its own mean, by its share of the samples."""
        target = self.targets[i]
        if output.dim() == 0:
            raise ValueError(
                "the output is a single number; loss_of needs an output with a row for each sample, as the target "
                f"has, of shape {tuple(target.shape)}"
            )
        if len(output) != len(target):
            raise ValueError(
                f"the output has {len(output)} samples and the target {len(target)}; give the ranks of the first and "
                "the last stage equally many samples"
            )
        return self._loss_of(output, target) * (len(target) / sum(map(len, self.targets)))

    def _backward(self, i: int) -> None:
        entered, begin = self._saved.pop(i)
        gradient = self.gradients.pop(i, None)  # none on the last stage, where it goes back from a loss
        if begin is not None:
            torch.autograd.backward([begin], None if gradient is None else [gradient])
        if entered.requires_grad:  # zeros where it is not used: the stage before waits all the same
            self.input_gradients[i] = torch.zeros_like(entered) if entered.grad is None else entered.grad

    def _backward_inputs(self, i: int) -> None:
        entered, begin = self._saved[i]
        if not entered.requires_grad:  # nobody waits for it: W does the whole
            return
        del self._saved[i]
        gradient = self.gradients.pop(i, None)
        if begin is None:  # the output does not depend on the input, nor on any weight
            self.input_gradients[i], self._for_weights[i] = torch.zeros_like(entered), lambda: None
        else:
            halves = backward_for_inputs(begin, gradient, entered, self.module.parameters())
            self.input_gradients[i], self._for_weights[i] = halves

    def _backward_weights(self, i: int) -> None:
        if i in self._for_weights:
            self._for_weights.pop(i)()
        else:
            self._backward(i)
