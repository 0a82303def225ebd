"""One action of a pipeline: what a rank does with one micro-batch on one stage.

    F  forward of one micro-batch through one stage
    B  its whole backward: the gradients of the stage's inputs and of its weights
    I  the first half of the backward: gradients of the inputs, which the stage before waits for
    W  the second half: gradients of the weights, which nobody waits for (Qi et al., arXiv 2401.10241)

The letters are those of ``torch.distributed.pipelining``. Others say dgrad for I and wgrad for W. A cell of a schedule
holds one action, or a forward and a backward that run at the same time: ``F&B``, as the authors of DualPipe write it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KINDS", "Action", "Cell", "Overlap", "actions_in"]

KINDS = {
    "F": "forward",
    "B": "backward",
    "I": "backward for inputs",
    "W": "backward for weights",
}


class Action(NamedTuple):
    """One cell of a schedule: ``Action("F", 2, 0)`` is the forward of micro-batch 0 on stage 2, ``F0.2`` in text."""

    kind: str  # a key of KINDS
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.short}.{self.stage}"

    @property
    def short(self) -> str:
        """Without the stage, as in a table of ranks with one stage each: ``F0``."""
        return f"{self.kind}{self.micro_batch}"


class Overlap(NamedTuple):
    """A cell with two actions: ``F7.0&B3.7``. It begins when both have what they need, and ends when both are done.

    A rank that waits for messages inside of a forward computes the backward meanwhile. What the two make sets out at
    the end of the cell. DeepSeek-AI, arXiv 2412.19437, section 3.2.1; PyTorch says ``OVERLAP_F_B``.
    """

    forward: Action
    backward: Action

    def __str__(self) -> str:
        return f"{self.forward}&{self.backward}"

    @property
    def short(self) -> str:
        return f"{self.forward.short}&{self.backward.short}"


Cell = Action | Overlap


def actions_in(cell: Cell) -> tuple[Action, ...]:
    """The one action of a cell, or its two."""
    return tuple(cell) if isinstance(cell, Overlap) else (cell,)
