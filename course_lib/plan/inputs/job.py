"""A job: what is to be trained, however it is cut."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.plan.inputs.model import Decoder

__all__ = ["Job"]


@checked
@dataclass(frozen=True)
class Job:
    """A model, tokens a sequence, and sequences a step over all GPUs."""

    model: Decoder
    seq: int
    batch: int

    def __post_init__(self) -> None:
        at_least(1, seq=self.seq, batch=self.batch)

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.seq * self.batch
