"""Missions for the plan explorer: what a job and a layout of one's own must reach, and what they still lack."""

from __future__ import annotations

from dataclasses import dataclass, replace

from course_lib.plan import Option
from course_lib.widgets.mission_progress import Mission
from course_lib.widgets.plan.choice import OwnCut, PlanChoice
from course_lib.widgets.plan.communication_optimal import fewer_that_hold
from course_lib.widgets.plan.search import planned
from course_lib.widgets.plan.words import gb_text, loses

__all__ = ["MISSIONS", "FewestMachines", "LittleMemory", "OneIsCheaper", "PlanMission"]


PlanMission = Mission[PlanChoice, OwnCut]


@dataclass(frozen=True)
class FewestMachines:
    """A layout of one's own without recomputation, on as few machines as hold one."""

    model: str = "llama-3-70b"
    machine: str = "8x H100"
    seq: int = 8192
    batch: int = 64

    def missed(self, choice: PlanChoice, own: OwnCut) -> str:
        """By memory alone."""
        if (choice.model, choice.machine, choice.seq) != (self.model, self.machine, self.seq):
            return f"This mission is for {self.model} on {self.machine}, {self.seq:,} tokens a sequence."
        if choice.batch != self.batch:
            return f"This mission is for {self.batch} sequences a step."
        if own.recompute != "none":
            return f"Your layout recomputes ({own.recompute}); in this mission it must not."
        if not isinstance(found := _own(choice, own), Option):
            return found
        if fewer_that_hold(choice, "none") is not None:
            return f"It runs on {choice.gpus} GPUs, and fewer would be enough."
        return ""


@dataclass(frozen=True)
class LittleMemory:
    """A layout of one's own that needs much less memory than the fastest, and hardly more time."""

    model: str = "llama-3-8b"
    machine: str = "8x H100"
    gpus: int = 16
    seq: int = 8192
    batch: int = 128
    share_of_memory: float = 0.7
    most_lost: float = 0.15

    def missed(self, choice: PlanChoice, own: OwnCut) -> str:
        """Against the planner's best for this job."""
        if choice != PlanChoice(self.model, self.machine, self.gpus, self.seq, self.batch):
            return (
                f"This mission is for {self.model}, {self.batch} sequences of {self.seq:,} tokens, {self.gpus} GPUs of "
                f"{self.machine}."
            )
        if not isinstance(found := _own(choice, own), Option):
            return found
        best = planned(choice).best
        assert best is not None  # one's own runs
        held, most = found.memory.total_bytes, self.share_of_memory * best.memory.total_bytes
        if held > most:
            return f"Your layout needs {gb_text(held)}; the mission allows at most {gb_text(most)}."
        if found.step_s > (1 + self.most_lost) * best.step_s:
            return (
                f"Your layout {loses(found, best)} of time; the mission allows a loss of at most {self.most_lost:.0%}."
            )
        return ""


@dataclass(frozen=True)
class OneIsCheaper:
    """A job that runs on one GPU, and on many costs a multiple of it: what is paid are GPUs times seconds."""

    gpus: int = 8
    times: float = 2.0

    def missed(self, choice: PlanChoice, own: OwnCut) -> str:
        """By the planner's best layouts."""
        if choice.gpus < self.gpus:
            return f"This mission is for {self.gpus} GPUs or more."
        best, one = planned(choice).best, planned(replace(choice, gpus=1)).best
        if best is None or one is None:
            return f"This job does not run on {'one GPU' if best else f'{choice.gpus} GPUs'}."
        dearer = best.step_s * choice.gpus / one.step_s
        if dearer < self.times:
            return (
                f"{choice.gpus} GPUs cost {dearer:.2f} times as much as one for the same step; the mission asks for "
                f"{self.times:g} times."
            )
        return ""


def _own(choice: PlanChoice, own: OwnCut) -> Option | str:
    try:
        found = own.judged(choice)
    except ValueError as error:
        return f"Your layout is not possible: {error}."
    return found if isinstance(found, Option) else f"Your layout does not run: {found.why}."


MISSIONS: tuple[PlanMission, ...] = (FewestMachines(), LittleMemory(), OneIsCheaper())
