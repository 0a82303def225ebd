"""The board as data: what a page or a text shows of a class, for all lessons or for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from course_lib.classroom.board.charts import Chart, chart_of
from course_lib.classroom.board.mistake_stats import CheckLine, MistakeLine, checks, mistakes
from course_lib.classroom.board.prediction_stats import Guesses, guesses
from course_lib.classroom.board.progress_by_part import PlaceLine, where
from course_lib.classroom.board.read_shared import Gathered
from course_lib.learn.checks.lesson_index import LessonIndex, question

__all__ = ["ClassBoard", "Wish", "board_of"]


@dataclass
class Wish:
    """What the instructor wants on the board now. ``show`` and ``reveal`` name questions, lessons, or "all".

    ``latest`` was asked for last. It stands on top: a projector shows little below its first question.
    """

    lesson: str = ""
    show: set[str] = field(default_factory=set)
    reveal: set[str] = field(default_factory=set)
    latest: str = ""

    def shows(self, one: Guesses) -> bool:
        return self.reveals(one) or _named(one, self.show)

    def reveals(self, one: Guesses) -> bool:
        return _named(one, self.reveal)

    def is_latest(self, one: Guesses) -> bool:
        return _named(one, {self.latest})


def _named(one: Guesses, names: set[str]) -> bool:
    return bool(names & {"all", one.name, one.place, one.place[:2]})


@dataclass(frozen=True)
class ClassBoard:
    """Everything that is shown, and nothing that is not: a chart that is not wanted yet is not in it."""

    title: str
    learners: int
    places: tuple[PlaceLine, ...]
    checks: tuple[CheckLine, ...]
    mistakes: tuple[MistakeLine, ...]
    charts: tuple[Chart, ...]
    waiting: tuple[tuple[str, str, int, int], ...]  # a question that is not shown: name, place, predicted, seen
    skipped: tuple[tuple[str, str], ...]
    half: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]  # what was to be shown, and nobody has answered


def board_of(gathered: Gathered, known: LessonIndex, wish: Wish) -> ClassBoard:
    """Count what was gathered."""
    learners = gathered.learners
    asked = guesses(learners, known, wish.lesson)
    shown = sorted(filter(wish.shows, asked), key=lambda one: not wish.is_latest(one))
    title = f"{wish.lesson} {known.title(wish.lesson)}".strip() if wish.lesson else "the whole course"
    return ClassBoard(
        title,
        len(learners),
        where(learners, known, wish.lesson),
        checks(learners, known, wish.lesson),
        mistakes(learners, known, wish.lesson),
        tuple(chart_of(one, question(one.name), reveal=wish.reveals(one)) for one in shown),
        tuple((one.name, one.place, len(one.values) + one.bare, one.seen) for one in asked if one not in shown),
        gathered.skipped,
        gathered.half,
        _unknown(asked, wish),
    )


def _unknown(asked: Sequence[Guesses], wish: Wish) -> tuple[str, ...]:
    return tuple(
        name
        for name in sorted(wish.show | wish.reveal)
        if name != "all" and not any(_named(one, {name}) for one in asked)
    )
