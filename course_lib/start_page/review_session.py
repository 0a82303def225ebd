"""The questions that are due today, asked once more: predictions beside the run that was seen, quizzes, problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.base.text import counted
from course_lib.learn import exercises
from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.display.revealed import Reveal
from course_lib.learn.paper.sheet import ProblemSheet
from course_lib.learn.paper.typed import typed
from course_lib.learn.records.store import record
from course_lib.start_page.asked_item import AskedItem, of_quiz, order_of, place_of
from course_lib.start_page.asking_session import AskingSession
from course_lib.start_page.reviews import ReviewState

__all__ = ["ReviewSession", "item_of"]


class ReviewSession(AskingSession):
    """The due questions, in their order. An answer is kept, and with it the day of the next time."""

    title = "Questions that you missed"

    def __init__(self, due: Sequence[ReviewState], events: Sequence[Mapping[str, Any]]) -> None:
        found = [(state, item_of(state, events)) for state in due]
        self._items = [(state, item) for state, item in found if item is not None]
        self._place, self._right = 0, 0

    @property
    def item(self) -> AskedItem | None:
        return self._items[self._place][1] if self._place < len(self._items) else None

    @property
    def count(self) -> str:
        state = self._items[self._place][0]
        return f"{self._place + 1} of {len(self._items)}, {state.name}, missed on {state.missed_on:%d %B %Y}:"

    def take(self, text: str) -> str:
        state, item = self._items[self._place]
        right, said = item.judge(text) if text else (False, "It is asked again tomorrow.")
        record("review", state.name, kind=state.kind, right=right)
        self._place, self._right = self._place + 1, self._right + right
        return said

    def conclusion(self) -> list[str]:
        if not self._items:
            return ["Nothing that you missed is due today."]
        right = counted(self._right, "right answer")
        return [f"{right} to {counted(len(self._items), 'question')}. That is all for today."]


def item_of(state: ReviewState, events: Sequence[Mapping[str, Any]]) -> AskedItem | None:
    """The question as it is asked now; None where this course no longer has it, or no run of it was kept."""
    try:
        if state.kind == "prediction":
            return _of_prediction(exercises.prediction(state.name), events)
        lesson, _, word = state.name.partition(".")
        if state.kind == "quiz":
            return of_quiz(lesson, word)
        return _of_problem(lesson, state.name)
    except ValueError:
        return None


def _of_prediction(asked: Asked, events: Sequence[Mapping[str, Any]]) -> AskedItem | None:
    seen = [one for one in events if (one["event"], one["name"]) == ("predict", asked.name) and "measured" in one]
    if not seen or (seen[-1].get("unit") or "") != asked.unit:  # an older course asked in another unit
        return None
    run, choices = seen[-1], tuple(asked.choices or asked.order or ())
    kind = "order" if asked.order else "choice" if asked.choices else "number"

    def judge(text: str) -> tuple[bool, str]:
        given: Any = typed(text, asked.unit) if kind == "number" else None
        if kind != "number":
            given = order_of(text, choices) if kind == "order" else choices[place_of(text, choices)]
        found = Reveal(asked.question, kind, asked.unit, given, run.get("model"), run["measured"])
        right = bool(found.is_right)
        again = "" if right else f' `reveal("{asked.name}", ...)` on its page says why.'
        return right, f"{'✓' if right else '✗'} {found.verdict()}{again}"

    return AskedItem(asked.name, asked.question, choices, asked.unit, judge, kind == "order")


def _of_problem(lesson: str, name: str) -> AskedItem:
    """A problem on paper with other numbers, which stay open in the lesson, too."""
    sheet = ProblemSheet(lesson, exercises.problems_of(lesson))
    one = sheet.problem(name)
    if sheet.standing[name].is_over:
        sheet.draw_anew(one)

    def judge(text: str) -> tuple[bool, str]:
        said = sheet.feedback(one, text)
        return sheet.standing[name].is_right, said

    return AskedItem(name, f"{one.title}. {sheet.drawn(one).text}", (), one.unit, judge)
