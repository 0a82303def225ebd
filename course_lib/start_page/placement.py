"""``start(placement=True)``: what can be skipped, by which answer, and what to read first."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.text import and_list, counted
from course_lib.learn.checks.lesson_index import LessonIndex
from course_lib.learn.records.store import record
from course_lib.lessons.info import LessonInfo
from course_lib.lessons.prerequisites import PREREQUISITES
from course_lib.lessons.ways import hours
from course_lib.start_page.asked_item import AskedItem, of_quiz
from course_lib.start_page.asking_session import AskingSession
from course_lib.start_page.placement_search import PlacementSearch
from course_lib.start_page.strands import ASKED_OF, STRANDS

__all__ = ["PlacementSession", "parts_up_to_quiz"]


class PlacementSession(AskingSession):
    """At most twenty questions of the lessons' own quizzes. What they find is kept when they end."""

    title = "Where to begin"

    def __init__(self, path: Sequence[LessonInfo], index: LessonIndex) -> None:
        self._path, self._index = tuple(path), index
        self._search = PlacementSearch(STRANDS, ASKED_OF)
        self._item = self._next()

    @property
    def item(self) -> AskedItem | None:
        return self._item

    @property
    def count(self) -> str:
        return f"Question {self._search.asked + 1}, of {self._search.most} at most:"

    def take(self, text: str) -> str:
        assert self._item is not None, "there is an item to answer"
        right = self._item.judge(text)[0] if text else False
        self._search.answer(right)
        self._item = self._next()
        if self._item is None:
            record("placement", "placement", known={part: list(names) for part, names in self.skipped().items()})
        # What a wrong answer mixes up, and why a right one is right, is for the lesson's own quiz to say.
        return "✓ Right." if right else "✗ Not so." if text else "Noted."

    def skipped(self) -> dict[str, tuple[str, ...]]:
        """The parts that can be skipped, each with the questions that say so."""
        known = self._search.known()
        return {part: names for lesson, names in known.items() for part in parts_up_to_quiz(lesson, self._index)}

    def first(self) -> LessonInfo | None:
        """The first part of the path that is not skipped; None where all are."""
        skipped = self.skipped()
        return next((info for info in self._path if info.label and info.label not in skipped), None)

    def conclusion(self) -> list[str]:
        skipped, first = self.skipped(), self.first()
        lines = [f"That was {counted(self._search.asked, 'question')}."]
        for lesson, names in self._search.known().items():
            parts = parts_up_to_quiz(lesson, self._index)
            lines.append(f"You can skip {and_list(parts)}: you answered {and_list(names)} right.")
        if not skipped:
            lines.append("You cannot skip a part.")
        for strand, lesson in self._search.begins():
            lines.append(f"{strand.title}: {f'lesson {lesson} comes first' if lesson else 'you know its lessons'}.")
        if self._search.not_asked:
            lines.append(f"Not asked, since it builds on the others: {and_list(self._search.not_asked)}.")
        saved = sum(info.minutes for info in self._path if info.label in skipped)
        if saved:
            lines.append(f"That saves {hours(saved)} of your path. Builds, and parts after a quiz, are left to do.")
        if first is None:
            return [*lines, "Nothing of your path is left to read."]
        return [
            *lines,
            f"Read {first.label} first: {first.title}. {self._why(first)} `course start` keeps this in mind.",
        ]

    def _why(self, first: LessonInfo) -> str:
        """Which of the parts that it builds on these answers show as known."""
        skipped, needed = self.skipped(), PREREQUISITES.get(first.label, ())
        if not needed:
            return "It builds on no other part."
        shown = [one for one in needed if one in skipped]
        if shown == [*needed]:
            return f"It builds on {and_list(needed)}, which you can skip."
        open_still = and_list([one for one in needed if one not in skipped])
        return f"It builds on {and_list(needed)}; your answers leave {open_still} open."

    def _next(self) -> AskedItem | None:
        asked = self._search.next
        if asked is None:
            return None
        return of_quiz(*asked)


def parts_up_to_quiz(lesson: str, index: LessonIndex) -> list[str]:
    """The parts of a lesson of which its quiz asks: up to the one where it stands. The others are left to do."""
    last = index.quiz_in.get(lesson, lesson)
    return [label for label in index.titles if label[:2] == lesson and label <= last]
