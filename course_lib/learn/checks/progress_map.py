"""``progress()``: the map of the lessons with what is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.base.text import columns
from course_lib.forms.show import Shown, panel, paragraph, show, table
from course_lib.learn import exercises
from course_lib.learn.records.store import Store, store
from course_lib.learn.records.summary import LessonSummary, summary

__all__ = ["PROGRESS_HEAD", "LessonLine", "ProgressMap", "progress", "progress_map"]


@dataclass(frozen=True)
class LessonLine:
    """One line of the map: how much of a lesson there is, and how much is done."""

    number: str
    title: str
    minutes: int | None
    exercises: int
    exercises_passed: int
    questions: int
    questions_right: int
    predictions: int
    problems: int = 0
    problems_right: int = 0

    @property
    def state(self) -> str:
        """ "done", "begun" or "not begun". Problems on paper are for another day: a lesson is done without them."""
        done = self.exercises_passed + self.questions_right
        if done and done == self.exercises + self.questions:
            return "done"
        return "begun" if done or self.predictions or self.problems_right else "not begun"

    def row(self) -> list[str]:
        sign = {"done": "✓", "begun": "◐", "not begun": "○"}[self.state]
        minutes = "–" if self.minutes is None else f"{self.minutes} min"
        counts = [
            f"{self.exercises_passed} of {self.exercises}",
            f"{self.questions_right} of {self.questions}",
        ]
        return [
            f"{self.number} {self.title}",
            minutes,
            f"{sign} {self.state}",
            *counts,
            str(self.predictions),
            f"{self.problems_right} of {self.problems}" if self.problems else "–",
        ]


@dataclass(frozen=True, repr=False)
class ProgressMap(Shown):
    """Every lesson with what is done, and what there is to say about the progress file."""

    lines: tuple[LessonLine, ...]
    messages: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([*columns([PROGRESS_HEAD, *(line.row() for line in self.lines)]), *self.messages])

    def _html(self) -> str:
        body = table(PROGRESS_HEAD, [line.row() for line in self.lines])
        return panel("info", "Your way through the course", body + "".join(map(paragraph, self.messages)))


PROGRESS_HEAD = ["lesson", "time", "state", "exercises", "quiz", "predictions", "problems"]


def progress() -> ProgressMap:
    """Show the map of the lessons with what this learner has done, and return it."""
    found = progress_map(store())
    show(found)
    return found


def progress_map(kept: Store) -> ProgressMap:
    """The map of the lessons for the events of this store, shown to nobody."""
    by_lesson = summary(kept.read())
    titles = _titles()
    lines = [
        _line(number, titles.get(number, ("", None)), by_lesson.get(number, LessonSummary()))
        for number in sorted({*titles, *exercises.lesson_numbers()})
    ]
    off = "" if kept.path else "Progress is not kept in this run."
    return ProgressMap(tuple(lines), tuple(filter(None, [*kept.messages, off])))


def _titles() -> dict[str, tuple[str, int | None]]:
    """Title and minutes by lesson, from the lessons' sources where this copy of the course has them."""
    try:
        from course_lib.lessons import lessons

        found = lessons()
        minutes = {info.number: 0 for info in found}
        for info in found:
            minutes[info.number] += info.minutes  # of all its parts
        return {info.number: (info.lesson_title, minutes[info.number]) for info in found}
    except (ImportError, ValueError, OSError):  # a map without titles is better than none
        return {}


def _line(number: str, label: tuple[str, int | None], done: LessonSummary) -> LessonLine:
    known = number in exercises.lesson_numbers()
    names = [one.name for one in exercises.exercises_of(number)] if known else []
    questions = [f"{number}.{question.name}" for question in exercises.quiz_of(number)] if known else []
    problems = [problem.name for problem in exercises.problems_of(number)] if known else []
    return LessonLine(
        number,
        *label,
        len(names),
        _count(names, done.passed),
        len(questions),
        _count(questions, done.quiz_right),
        len(done.predicted),
        len(problems),
        _count(problems, done.problems_right),
    )


def _count(names: Iterable[str], done: set[str]) -> int:
    return sum(name in done for name in names)
