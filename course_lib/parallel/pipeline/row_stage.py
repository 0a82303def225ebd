"""One stage that computes and sends nothing: for those who write the loop over a row of a schedule themselves.

The loop of the course itself is ``batch_run.py``; it has to know more: several stages on a rank, messages that travel
while the rank computes, micro-batches of several shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank

__all__ = ["RowStage"]


class RowStage:
    """The stage of this rank, and what it keeps of each micro-batch between forward and backward.

    ``stages`` is the whole model, a module for each rank; ``x`` and ``target``, (B, ...), the whole batch, of which
    the first and the last rank read their micro-batches; ``loss_of(output, target)`` the mean over its samples.
    ``shape`` is that of what travels, for one micro-batch: (B / m, ...). Gradients add up in ``module.parameters()``,
    and end as those of the batch's mean loss.

    Raises ValueError where there are not as many stages as ranks, or where m does not divide B.
    """

    def __init__(
        self,
        me: Rank,
        stages: Sequence[nn.Module],
        batch: tuple[Tensor, Tensor],
        num_micro_batches: int,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        shape: Sequence[int],
    ) -> None:
        if len(stages) != me.world_size:
            raise ValueError(
                f"{me.world_size} ranks got {len(stages)} stages; here each rank has one stage. The nearest is "
                f"{me.world_size}."
            )
        if num_micro_batches < 1 or len(batch[0]) % num_micro_batches:
            raise ValueError(
                f"{num_micro_batches} micro-batches do not divide {len(batch[0])} samples; here all micro-batches "
                "have one size. The nearest number that always works is 1."
            )
        self.module = stages[me.rank].to(me.device)
        self.is_first, self.is_last = me.rank == 0, me.rank == me.world_size - 1
        self.loss_of, self.num_micro_batches = loss_of, num_micro_batches
        self.shape, self.device, self.dtype = tuple(shape), me.device, _dtype_of(stages)
        self.x, self.target = (part.to(me.device).chunk(num_micro_batches) for part in batch)
        self.losses: list[Tensor] = []  # of the last stage, in the order in which they were computed
        self._saved: dict[int, tuple[Tensor, Tensor]] = {}  # by micro-batch: what came in, and what came of it

    @property
    def in_flight(self) -> list[int]:
        """The micro-batches whose forward has been run and whose backward has not."""
        return list(self._saved)

    def room(self) -> Tensor:
        """A new tensor, in which what a neighbour sends can arrive: activations or their gradient."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    def forward(self, i: int, arrived: Tensor | None = None) -> Tensor:
        """Forward of micro-batch i: ``arrived`` is what the stage before sent, None on the first. What to send on."""
        given = self.x[i] if self.is_first else _needed(arrived, f"forward({i}, ...)", "activations")
        given = given.detach()
        if not self.is_first:
            given.requires_grad_()
        made = self.module(given)
        if self.is_last:
            made = self.loss_of(made, self.target[i]) / self.num_micro_batches
            self.losses.append(made.detach())
        self._saved[i] = given, made
        return made.detach().contiguous()

    def backward(self, i: int, arrived: Tensor | None = None) -> Tensor | None:
        """Backward of micro-batch i: ``arrived`` is the gradient that the stage behind sent, None on the last.

        What to send to the stage before; None on the first.
        """
        if i not in self._saved:
            raise ValueError(
                f"backward({i}) was called before forward({i}); in flight are the micro-batches {self.in_flight}."
            )
        gradient = None if self.is_last else _needed(arrived, f"backward({i}, ...)", "a gradient")
        given, made = self._saved.pop(i)
        if made.requires_grad:  # else nothing in the first stage learns
            made.backward(gradient)
        return None if self.is_first else given.grad


def _needed(arrived: Tensor | None, call: str, what: str) -> Tensor:
    if not isinstance(arrived, Tensor):
        raise ValueError(f"{call} got {arrived!r}, and it needs {what} from a neighbour: the received tensor.")
    return arrived


def _dtype_of(stages: Sequence[nn.Module]) -> torch.dtype:
    return next((p.dtype for stage in stages for p in stage.parameters()), torch.float32)
