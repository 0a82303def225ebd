"""How many forward passes still hold their activations, and how many there were: what accumulating is to save."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course_lib.meter.memory.other_threads import settle

__all__ = ["Graphs"]


class Graphs:
    """Watches the forward passes of a model from now on. A pass lives as long as autograd keeps a tensor for it."""

    def __init__(self, model: nn.Module) -> None:
        self.sizes: list[int] = []  # of the batches that went forward
        self.modes: list[bool] = []  # whether the model was in train mode then
        self.autocast = False  # in any of them
        self.most_alive = 0
        self._held: dict[int, int] = {}
        plain_forward = model.forward

        def forward(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            number = len(self.sizes)
            self.sizes.append(len(x))
            self.modes.append(model.training)
            self.autocast |= torch.is_autocast_enabled(x.device.type)
            with saved_tensors_hooks(lambda tensor: _Held(tensor, number, self), lambda held: held.tensor):
                return plain_forward(x, *args, **kwargs)

        model.forward = forward

    @property
    def num_alive(self) -> int:
        """Passes that could still go backward."""
        return len(self._held)

    def hold(self, number: int) -> None:
        self._held[number] = self._held.get(number, 0) + 1
        if len(self._held) > self.most_alive:
            settle()  # a thread of gloo may be about to free the graph before
        self.most_alive = max(self.most_alive, len(self._held))

    def let_go(self, number: int) -> None:
        self._held[number] -= 1
        if not self._held[number]:
            del self._held[number]


class _Held:
    """A tensor that autograd keeps for the backward pass; it goes with the graph."""

    def __init__(self, tensor: Tensor, number: int, graphs: Graphs) -> None:
        self.tensor, self._number, self._graphs = tensor, number, graphs
        graphs.hold(number)

    def __del__(self) -> None:
        self._graphs.let_go(self._number)
