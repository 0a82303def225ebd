"""``problems("04")``: a lesson's problems on paper, at real size, with numbers of your own.

Without a front end they are text; ``problems("04").answer("sent", "50 GB")`` answers one, ``.way("sent")`` shows the
way to it, ``.anew("sent")`` draws other numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_lib.forms.show import Shown, show
from course_lib.learn import exercises
from course_lib.learn.checks.hints import HintNote, shown_note
from course_lib.learn.paper.sheet import ProblemSheet
from course_lib.learn.paper.shown import WorkedSolution, WorkedSolutions

if TYPE_CHECKING:
    from course_lib.learn.paper.problem_form import ProblemForm

__all__ = ["PaperProblems", "problems"]


class PaperProblems(ProblemSheet, Shown):
    """The problems of one lesson, shown as a form, or as text where there is no front end."""

    def answer(self, name: str, text: str | float) -> HintNote:
        """Answer a problem by a number, or by a text with a unit; shows and returns what is to be said about it."""
        one = self.problem(name)
        try:
            said = self.feedback(one, str(text))
        except ValueError as error:
            said = f"✗ {error}"
        return shown_note(HintNote(one.title, said))

    def way(self, name: str) -> WorkedSolution:
        """The way to the answer, which ends this try."""
        one = self.problem(name)
        found = WorkedSolution(one.title, self.show_way(one))
        show(found)
        return found

    def anew(self, name: str) -> HintNote:
        """Other numbers for a problem, which is open then."""
        one = self.problem(name)
        self.draw_anew(one)
        return shown_note(HintNote(one.title, self.drawn(one).text))

    def form(self) -> ProblemForm:
        from course_lib.learn.paper.problem_form import ProblemForm

        return ProblemForm(self)

    def __repr__(self) -> str:
        lines = [f"Problems of lesson {self.lesson}. Answer one by .answer(name, number)."]
        for number, one in enumerate(self.problems, start=1):
            sign = "✓ " if self.standing[one.name].is_right else ""
            lines.append(f"{sign}{number}. {one.title}, in {one.unit}  [{one.name}]\n   {self.drawn(one).text}")
        return "\n".join(lines)

    def _bundle(self) -> dict[str, Any]:
        return self.form().bundle(repr(self))


def problems(lesson: str, *, ways: bool = False) -> PaperProblems | WorkedSolutions:
    """Show the problems of a lesson ("04") and return them. Raises ``ValueError`` for a lesson that has none.

    ``ways``: each with the way to its answer, for who reads and does not work; nothing is noted of it.
    """
    found_ones = exercises.problems_of(lesson)
    if not found_ones:
        have = [number for number in exercises.lesson_numbers() if exercises.problems_of(number)]
        raise ValueError(f"Lesson {lesson} has no problems on paper; these have: {', '.join(have)}.")
    sheet = PaperProblems(lesson, found_ones)
    found = WorkedSolutions([(one.title, sheet.drawn(one)) for one in sheet.problems]) if ways else sheet
    show(found)
    return found
