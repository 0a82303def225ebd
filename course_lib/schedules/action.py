"""One action of a pipeline: what a rank does with one micro-batch on one stage.

    F  forward of one micro-batch through one stage
    B  its whole backward: the gradients of the stage's inputs and of its weights
    I  the first half of the backward: gradients of the inputs, which the stage before waits for
    W  the second half: gradients of the weights, which nobody waits for (Qi et al., arXiv 2401.10241)

The letters are those of ``torch.distributed.pipelining``. Others say dgrad for I and wgrad for W.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KINDS", "Action"]

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
