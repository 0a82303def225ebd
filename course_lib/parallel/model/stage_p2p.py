"""Passing activations to the next rank and gradients to the rank before: what a cut model sends.

A message between ranks knows nothing of autograd: what arrives is a tensor without a history, and no gradient ever
finds its way back by itself. Somebody has to send it. ``Passing`` holds the four messages, to be called by hand;
``SendToNext`` and ``RecvFromPrevious`` call two of them in the forward pass and the other two in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.model.spans import Spans, Unwatched

__all__ = ["Passing", "RecvFromPrevious", "SendToNext", "TensorSpec"]

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)
_MOST_DIMS = 8


@dataclass(frozen=True)
class TensorSpec:
    """What a rank has to know before a ``recv``: how much room to make, and whether to send a gradient back."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_gradient: bool  # False where everything before the cut is frozen

    def numbers(self) -> list[int]:
        """As whole numbers, always as many: dtype, needs_gradient, number of dims, dims."""
        if self.dtype not in _DTYPES or len(self.shape) > _MOST_DIMS:
            raise ValueError(
                f"an activation of {self.dtype} with {len(self.shape)} dims cannot be passed on; it needs one of "
                f"{', '.join(map(str, _DTYPES))}, such as {_DTYPES[0]}, and at most {_MOST_DIMS} dims"
            )
        rest = [0] * (_MOST_DIMS - len(self.shape))
        return [_DTYPES.index(self.dtype), int(self.needs_gradient), len(self.shape), *self.shape, *rest]

    def __str__(self) -> str:
        gradient = "needs a" if self.needs_gradient else "needs no"
        return f"an activation of shape {self.shape} and {self.dtype} that {gradient} gradient"

    @classmethod
    def of(cls, numbers: list[int]) -> TensorSpec:
        dtype, needs_gradient, num_dims, *dims = numbers
        return cls(tuple(dims[:num_dims]), _DTYPES[dtype], bool(needs_gradient))


class Passing:
    """The four messages of a rank in a row of ranks; the rank after it has the next part of the model.

    A receiver makes room before a message comes, so it must know shape and dtype. The sender tells it once, in a
    message of its own before the first activation: telling at every step would cost a latency each time, and on a
    GPU the host would have to wait for it. So every batch must be like the first one; ``forget`` on all ranks begins
    anew. Batches under ``torch.no_grad()`` are told apart, and may have a shape of their own.
    Each message is a span on ``timeline``.
    """

    def __init__(self, me: Rank, timeline: Spans | None = None) -> None:
        self.me = me
        self.timeline = timeline or Unwatched()
        self.forget()

    def forget(self) -> None:
        """The next batch may have another shape or dtype, or other parts of the model may be frozen."""
        self._recv_specs: dict[bool, TensorSpec] = {}  # what the rank before told; by whether gradients are recorded
        self._sent_specs: dict[bool, TensorSpec] = {}  # what the next rank was told

    def recv_spec(self) -> TensorSpec:
        """What the rank before sends at every batch; waits for the message that says so, the first time."""
        mode = torch.is_grad_enabled()
        if mode not in self._recv_specs:
            numbers = torch.empty(3 + _MOST_DIMS, dtype=torch.int64, device=self.me.device)
            with self.timeline.span("recv", kind="recv"):
                exchange([recv(numbers, self.me.rank - 1)])
            self._recv_specs[mode] = TensorSpec.of(numbers.tolist())
        return self._recv_specs[mode]

    def send_spec(self, activation: torch.Tensor) -> None:
        """Tell the next rank what this rank sends at every batch; a message, the first time."""
        mode = torch.is_grad_enabled()
        now = TensorSpec(tuple(activation.shape), activation.dtype, activation.requires_grad)
        if mode not in self._sent_specs:
            numbers = torch.tensor(now.numbers(), dtype=torch.int64, device=self.me.device)
            with self.timeline.span("send", kind="send"):
                exchange([send(numbers, self.me.rank + 1)])
            self._sent_specs[mode] = now
        if now != self._sent_specs[mode]:
            raise ValueError(
                f"rank {self.me.rank} has {now} to pass on, but at the first batch it announced "
                f"{self._sent_specs[mode]} to rank {self.me.rank + 1}. Keep that shape (drop a smaller last batch), "
                "or call forget_shapes() on every rank before a batch that differs."
            )

    def send_activation(self, activation: torch.Tensor) -> None:
        """The values of what this part made of the batch, to the next rank."""
        with self.timeline.span("send", kind="send"):
            exchange([send(activation.detach().contiguous(), self.me.rank + 1)])

    def recv_activation(self, spec: TensorSpec) -> torch.Tensor:
        """What the part before made of the batch: its values, without a history."""
        activation = torch.empty(spec.shape, dtype=spec.dtype, device=self.me.device)
        with self.timeline.span("recv", kind="recv"):
            exchange([recv(activation, self.me.rank - 1)])
        return activation

    def recv_gradient(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """The gradient of the activation that this rank sent, which had this shape and dtype."""
        room = torch.empty(tuple(shape), dtype=dtype, device=self.me.device)
        with self.timeline.span("recv", kind="recv"):
            exchange([recv(room, self.me.rank + 1)])
        return room

    def send_gradient(self, gradient: torch.Tensor) -> None:
        """The gradient of the activation that this rank received, back to where it came from."""
        with self.timeline.span("send", kind="send"):
            exchange([send(gradient.contiguous(), self.me.rank - 1)])


class SendToNext(torch.autograd.Function):
    """Forward: ``send`` ``output`` to the next rank. Backward: ``recv`` its gradient from there.

    Returns a zero for autograd to begin at: ``backward()`` of it sets off the backward pass of this rank. What
    gradient that zero is given does not matter; the scale comes from the last rank's loss.
    """

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, passing: Passing) -> torch.Tensor:
        ctx.passing, ctx.shape, ctx.dtype = passing, output.shape, output.dtype
        passing.send_activation(output)
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.passing.recv_gradient(ctx.shape, ctx.dtype), None


class RecvFromPrevious(torch.autograd.Function):
    """Forward: ``recv`` an activation from the rank before. Backward: ``send`` its gradient there.

    Autograd calls the backward of a function only where one of its inputs requires a gradient, and a message has no
    input: ``anchor``, any tensor that requires one, stands in for it.
    """

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, passing: Passing, spec: TensorSpec) -> torch.Tensor:
        ctx.passing = passing
        return passing.recv_activation(spec)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None, None]:
        ctx.passing.send_gradient(gradients[0])
        return None, None, None
