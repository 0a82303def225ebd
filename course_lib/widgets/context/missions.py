"""Missions for the context explorer: what a setting must reach, and what one still lacks, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.layouts.sequence_cut import ORDERS
from course_lib.widgets.context.choice import WAYS, ContextChoice, kib_text
from course_lib.widgets.mission_progress import Mission

__all__ = ["MISSIONS", "ContextMission", "LittleSent", "SameBytes"]

Measured = Mapping[ContextChoice, int]  # what the rank that sent most has sent, for every setting that has been run


ContextMission = Mission[ContextChoice, Measured]


@dataclass(frozen=True)
class LittleSent:
    """Few bytes from every rank, and, where it is asked for, the same work for every rank in every step."""

    most_sent_bytes: int
    num_ranks: int = 4
    least_tokens: int = 64
    key_heads: int | None = None  # any
    most_apart: float | None = None  # from the mean of all ranks and steps; any

    def missed(self, choice: ContextChoice, measured: Measured) -> str:
        """By the model."""
        if choice.num_ranks != self.num_ranks or choice.num_tokens < self.least_tokens:
            return f"This mission is for {self.num_ranks} ranks and {self.least_tokens} tokens or more."
        if self.key_heads not in (None, choice.key_heads):
            return f"This mission is for {self.key_heads} key heads."
        if choice.most_sent_bytes > self.most_sent_bytes:
            sent, asked = kib_text(choice.most_sent_bytes), kib_text(self.most_sent_bytes)
            return f"A rank sends {sent} forward and backward; the mission allows at most {asked}."
        if self.most_apart is not None and choice.apart > self.most_apart:
            return (
                f"In some step a rank's pairs are {choice.apart:.0%} from the mean; the mission allows at most "
                f"{self.most_apart:.0%}."
            )
        return ""


@dataclass(frozen=True)
class SameBytes:
    """A setting of two ranks or more in which the ring and the all-to-all send the same, both of them run."""

    def missed(self, choice: ContextChoice, measured: Measured) -> str:
        """By two runs."""
        if choice.num_ranks == 1:
            return "A single rank sends nothing; take more ranks."
        found = {
            way: sizes
            for way in WAYS
            if (sizes := [size for order in ORDERS if (size := _of(measured, choice, way, order)) is not None])
        }
        if len(found) < len(WAYS):
            return (
                "This mission needs two runs of this setting, one by the ring and one by all-to-all. Tokens, ranks "
                f"and key heads stay as they are. So far {len(found)} of the two has run."
            )
        if not set(found["ring"]) & set(found["all_to_all"]):
            ring, heads = (kib_text(min(found[way])) for way in WAYS)
            return f"A rank sent {ring} by the ring, and {heads} by all-to-all."
        return ""


def _of(measured: Measured, choice: ContextChoice, way: str, order: str) -> int | None:
    """What a run found in another way and order; nothing where there was none, or where the way is refused."""
    try:
        return measured.get(replace(choice, way=way, order=order))
    except ValueError:
        return None


MISSIONS: tuple[ContextMission, ...] = (
    LittleSent(12 * 1024, key_heads=4),
    LittleSent(10 * 1024, most_apart=0.1),
    SameBytes(),
)
