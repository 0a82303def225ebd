"""How long the actions of a stage take: what a simulation is given, and what paced ranks keep to."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, not_negative

__all__ = ["StageTimes"]


@checked
@dataclass(frozen=True)
class StageTimes:
    """How long one micro-batch takes on one stage, in seconds.

    A whole backward (B) runs its halves back to back, unless ``backward_s`` says that it takes another time. A forward
    and a backward that overlap (F&B) run one after the other, unless ``overlapped_s`` says how long the two take at the
    same time.
    """

    forward_s: float
    input_s: float  # I: gradients of the inputs
    weight_s: float  # W: gradients of the weights
    backward_s: float | None = None
    overlapped_s: float | None = None  # F&B: a forward and a whole backward of two micro-batches

    def __post_init__(self) -> None:
        not_negative(forward_s=self.forward_s, input_s=self.input_s, weight_s=self.weight_s)
        if self.backward_s is not None:
            not_negative(backward_s=self.backward_s)
        if self.overlapped_s is not None:
            not_negative(overlapped_s=self.overlapped_s)

    @classmethod
    def of(cls, forward_s: float, backward_to_forward: float = 2.0) -> StageTimes:
        """A backward that takes ``backward_to_forward`` times as long as the forward; its halves take equal time."""
        not_negative(forward_s=forward_s, backward_to_forward=backward_to_forward)
        half_s = forward_s * backward_to_forward / 2
        return cls(forward_s, half_s, half_s)

    def divided(self, num_stages: int) -> StageTimes:
        """The times of each of ``num_stages`` equal stages into which this one is cut."""
        above_zero(num_stages=num_stages)
        whole_s = None if self.backward_s is None else self.backward_s / num_stages
        both_s = None if self.overlapped_s is None else self.overlapped_s / num_stages
        return StageTimes(
            self.forward_s / num_stages,
            self.input_s / num_stages,
            self.weight_s / num_stages,
            whole_s,
            both_s,
        )

    def time_s(self, kind: str) -> float:
        """The time of an action of this kind."""
        whole_s = self.input_s + self.weight_s if self.backward_s is None else self.backward_s
        return {"F": self.forward_s, "B": whole_s, "I": self.input_s, "W": self.weight_s}[kind]
