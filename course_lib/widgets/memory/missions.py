"""Missions for the memory explorer: what a choice of dials must reach, and what one still lacks, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.meter.units import bytes_text

__all__ = ["AddedMemory", "Bar", "LargestBatch", "MemoryMission"]


@dataclass(frozen=True)
class Bar:
    """A choice of the explorer's dials by their names, and the bytes by label that it comes to."""

    dials: Mapping[str, Any]
    sizes: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        """All labels together."""
        return sum(self.sizes.values())


class MemoryMission(Protocol):
    """Something to be reached with the explorer."""

    def missed(self, now: Bar, kept: Bar, others: Callable[[int], Sequence[Bar]]) -> str:
        """What is still wrong, in a sentence; nothing when the mission is reached.

        ``others(b)`` are the bars of batch size b with every precision, recomputed and not, and the optimizer of
        ``now``; none where b is more than can be chosen.
        """
        ...

    def told(self, now: Bar, kept: Bar) -> str:
        """What has been found, in a sentence, once the mission is reached."""
        ...


@checked
@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that fits in ``limit_bytes`` with this optimizer, whatever the other dials say."""

    limit_bytes: int
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        at_least(1, limit_bytes=self.limit_bytes)

    def missed(self, now: Bar, kept: Bar, others: Callable[[int], Sequence[Bar]]) -> str:
        """What is still wrong; nothing when no larger batch fits."""
        if now.dials["optimizer"] != self.optimizer:
            return f"This mission is for {self.optimizer}, and you chose {now.dials['optimizer']}."
        if now.total_bytes > self.limit_bytes:
            return f"This batch does not fit in {bytes_text(self.limit_bytes)}."
        if any(bar.total_bytes <= self.limit_bytes for bar in others(now.dials["batch_size"] + 1)):
            return "A larger batch fits, with these dials or with other settings of them."
        return ""

    def told(self, now: Bar, kept: Bar) -> str:
        """Which batch it is."""
        batch_size, limit = now.dials["batch_size"], bytes_text(self.limit_bytes)
        return f"No batch larger than {batch_size} fits in {limit} with {self.optimizer}."


@checked
@dataclass(frozen=True)
class AddedMemory:
    """At batch size 1, a dial that adds memory: one bar kept with the first choices, one that differs in one dial."""

    optimizer: str = "adamw"
    precision: str = "float32"

    def missed(self, now: Bar, kept: Bar, others: Callable[[int], Sequence[Bar]]) -> str:
        """What is still wrong; nothing when one dial has made the bar longer."""
        start = {
            "batch_size": 1,
            "optimizer": self.optimizer,
            "precision": self.precision,
            "recompute": False,
        }
        if dict(kept.dials) != start:
            return f"Keep the bar of batch size 1 with {self.optimizer}, {self.precision} and no recomputation."
        changed = [dial for dial in start if now.dials[dial] != kept.dials[dial]]
        if "batch_size" in changed or len(changed) != 1:
            return "Change exactly one dial, and leave the batch size at 1."
        if now.total_bytes <= kept.total_bytes:
            return f"The dial {changed[0]!r} has added nothing."
        return ""

    def told(self, now: Bar, kept: Bar) -> str:
        """Which dial it is, how much it adds, and under which label most of it."""
        dial = next(name for name in now.dials if now.dials[name] != kept.dials[name])
        more = {label: size - kept.sizes.get(label, 0) for label, size in now.sizes.items()}
        label = max(more, key=lambda name: more[name])
        added = now.total_bytes - kept.total_bytes
        return f"The dial {dial!r} adds {bytes_text(added)}; the label that grows is {label!r}."
