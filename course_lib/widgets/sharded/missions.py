"""Missions for the sharded explorer: what a setting must reach, and what one still lacks, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from course_lib.base.text import kib
from course_lib.widgets.mission_progress import Mission
from course_lib.widgets.sharded.choice import ShardedChoice

__all__ = ["MISSIONS", "AsMuchAsDdp", "FewRanksFewMessages", "LeastMemory", "ShardedMission"]


ShardedMission = Mission[ShardedChoice, Sequence[int]]  # each rank's peak in a run of this choice, or nothing


@dataclass(frozen=True)
class FewRanksFewMessages:
    """So many ranks, at most half of what DDP holds, and no more messages than DDP with a bucket for each layer."""

    num_ranks: int = 4

    def missed(self, choice: ShardedChoice, measured: Sequence[int]) -> str:
        """By the model."""
        ddp = ShardedChoice(num_ranks=self.num_ranks)
        if choice.num_ranks != self.num_ranks:
            return f"This mission is for {self.num_ranks} ranks."
        if choice.peak().total > ddp.peak().total / 2:
            held, asked = kib(choice.peak().total), kib(ddp.peak().total / 2)
            return f"A rank holds {held} at its peak; the mission allows at most {asked}."
        if choice.num_messages > ddp.num_messages:
            return f"It takes {choice.num_messages} messages a step; the mission allows at most {ddp.num_messages}."
        return ""


@dataclass(frozen=True)
class AsMuchAsDdp:
    """Stage 1, 2 or 3 on real ranks, and as much memory as under DDP, or more; ``share`` of it is enough."""

    share: float = 0.95

    def missed(self, choice: ShardedChoice, measured: Sequence[int]) -> str:
        """By a run."""
        if choice.stage == 0:
            return "This mission is for a stage above 0."
        if not measured:
            return "Run this setting: the mission needs a measurement."
        asked = self.share * replace(choice, stage=0).peak().total
        if max(measured) < asked:
            return f"The ranks held {kib(max(measured))} at most; the mission asks for at least {kib(asked)}."
        return ""


@dataclass(frozen=True)
class LeastMemory:
    """The lowest peak that any setting has, with any number of ranks up to ``most_ranks``."""

    most_ranks: int = 64

    @cached_property
    def least_bytes(self) -> int:
        """What is to be reached."""
        return min(ShardedChoice(stage=3, num_ranks=n).peak().total for n in range(2, self.most_ranks + 1))

    def missed(self, choice: ShardedChoice, measured: Sequence[int]) -> str:
        """By the model."""
        held, least = choice.peak().total, self.least_bytes
        return f"A rank holds {kib(held)} at its peak; a setting with {kib(least)} exists." if held > least else ""


MISSIONS: tuple[ShardedMission, ...] = (FewRanksFewMessages(), AsMuchAsDdp(), LeastMemory())
