"""Questions one after the other: as a form in a notebook, as text elsewhere, answered by ``.answer("b")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_lib.forms.show import Shown
from course_lib.learn.checks.hints import HintNote, shown_note
from course_lib.start_page.questions_in_turn import QuestionsInTurn

if TYPE_CHECKING:
    from course_lib.start_page.asking_form import AskingForm

__all__ = ["AskingSession"]


class AskingSession(QuestionsInTurn, Shown):
    """Such questions as a notebook shows them."""

    def answer(self, text: object = "") -> HintNote:
        """Answer the item that is open by a letter or a number; without one, that you do not know it."""
        if self.item is None:
            return shown_note(HintNote(self.title, " ".join(self.conclusion())))
        name = self.item.name
        try:
            said = self.take(str(text).strip())
        except ValueError as error:
            return shown_note(HintNote(name, f"✗ {error}"))
        after = [*self.item.lines(), self.item.how] if self.item is not None else self.conclusion()
        return shown_note(HintNote(name, "\n".join([said, "", *after])))

    def form(self) -> AskingForm:
        from course_lib.start_page.asking_form import AskingForm

        return AskingForm(self)

    def __repr__(self) -> str:
        if self.item is None:
            return "\n".join([self.title, *self.conclusion()])
        how = f'{self.item.how} In code: .answer("a"), or .answer() where you do not know.'
        return "\n".join([f"{self.title}. {self.count}", *self.item.lines(), how])

    def _bundle(self) -> dict[str, Any]:
        return self.form().bundle(repr(self))
