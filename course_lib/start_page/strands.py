"""The lessons in strands, and which questions of their quizzes a placement asks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASKED_OF", "STRANDS", "Strand"]


@dataclass(frozen=True)
class Strand:
    """Lessons of which each stands on those before it."""

    title: str
    lessons: tuple[str, ...]


STRANDS = (
    Strand("one device, ranks, collectives", ("00", "01", "02")),
    Strand("copies and shards", ("03", "04", "05")),
    Strand("a model in pieces", ("06", "07", "08")),
    Strand("several ways at once", ("09", "10")),
    Strand("planning and large machines", ("11", "12")),
)
# Two questions of each lesson's quiz: they can be answered without the lesson's page, and by who knows its idea alone.
ASKED_OF: dict[str, tuple[str, str]] = {
    "00": ("ranks", "mean"),
    "01": ("state", "batch"),
    "02": ("bytes", "rounds"),
    "03": ("copied", "steps"),
    "04": ("bytes", "memory"),
    "05": ("stage", "left"),
    "06": ("share", "what_crosses"),
    "07": ("enough", "memory"),
    "08": ("count", "heads"),
    "09": ("seeds", "neighbour"),
    "10": ("experts", "causal"),
    "11": ("states", "hfu"),
    "12": ("place", "interval"),
}
