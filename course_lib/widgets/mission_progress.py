"""The missions of an explorer, and how they stand: one that has been reached stays so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["Mission", "MissionProgress"]

C = TypeVar("C", contravariant=True)  # a choice of the explorer's controls
F = TypeVar("F", contravariant=True)  # what it is held against beside: what runs have found, a layout of one's own
M = TypeVar("M")  # a mission


class Mission(Protocol[C, F]):
    """Something to be reached with an explorer."""

    def missed(self, choice: C, found: F, /) -> str:
        """What is still wrong, in a sentence; nothing when it is reached."""
        ...


class MissionProgress(Generic[M]):
    """``missed``, here and below, says what a mission still lacks, in a sentence; nothing where it is reached."""

    def __init__(self, missions: Sequence[M]) -> None:
        self._missions = tuple(missions)
        self._reached: dict[int, str] = {}  # by number, in which setting

    def look(self, setting: str, missed: Callable[[M], str]) -> None:
        """Keep which missions a setting reaches for the first time."""
        for number, mission in enumerate(self._missions, start=1):
            if number not in self._reached and not missed(mission):
                self._reached[number] = setting

    def lines(self, missed: Callable[[M], str]) -> list[str]:
        """A line for each mission: with which setting it was reached, or what it still lacks."""
        return [
            f"mission {number}: reached ({self._reached[number]})"
            if number in self._reached
            else f"mission {number}: not yet. {missed(mission)}"
            for number, mission in enumerate(self._missions, start=1)
        ]

    def __str__(self) -> str:
        return f"missions reached: {len(self._reached)} of {len(self._missions)}"
