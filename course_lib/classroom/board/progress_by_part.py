"""Who is where: for each part of a lesson who did something there last, how many have begun, how many are through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.classroom.board.read_shared import Learner
from course_lib.learn.checks.lesson_index import LessonIndex
from course_lib.lessons.info import short_title

__all__ = ["PlaceLine", "where"]


@dataclass(frozen=True)
class PlaceLine:
    """A part of a lesson. ``through``: how many have passed every check of it; None where it has no check."""

    place: str
    title: str
    here: tuple[str, ...]
    begun: int
    through: int | None

    @property
    def short_title(self) -> str:
        """Of a part what it is about, without the lesson's name before it."""
        return short_title(self.title)


def where(learners: Sequence[Learner], known: LessonIndex, lesson: str = "") -> tuple[PlaceLine, ...]:
    """A line for each place that somebody has begun, in the order of the course; those of ``lesson`` where given."""
    last: dict[str, list[str]] = {}
    begun: dict[str, set[str]] = {}
    passed: dict[str, set[str]] = {one.word: set() for one in learners}
    for one in learners:
        place = ""
        for event in one.events:
            place = known.place(event["name"], event["event"])
            begun.setdefault(place, set()).add(one.word)
            if event["event"] == "check" and event.get("status") == "passed":
                passed[one.word].add(event["name"])
        if place:
            last.setdefault(place, []).append(one.label)
    lines = []
    for place in sorted(begun):
        if known.is_in(place, lesson):
            checks = known.checks_in.get(place, [])
            through = sum(passed[word].issuperset(checks) for word in begun[place]) if checks else None
            here = tuple(last.get(place, ()))
            lines.append(PlaceLine(place, known.title(place), here, len(begun[place]), through))
    return tuple(lines)
