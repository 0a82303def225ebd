"""The form of questions one after the other: text, choices or a box, two buttons; all reachable by keyboard."""

from __future__ import annotations

import string

import ipywidgets as widgets

from course_lib.forms import Form
from course_lib.forms.show import panel, paragraph
from course_lib.start_page.questions_in_turn import QuestionsInTurn

__all__ = ["AskingForm"]

_WIDE = {"width": "max-content"}


class AskingForm(Form):
    """One question at a time. The buttons stay when the next one comes, so that the focus does too."""

    def __init__(self, session: QuestionsInTurn) -> None:
        self._session = session
        self.text, self.feedback = widgets.HTML(), widgets.HTML()
        self.choice: widgets.RadioButtons | None = None  # made anew for each question: keys.js names it once
        self.box: widgets.Text | None = None
        self.question = widgets.VBox([self.text])
        self.question.add_class("course-question")  # the radio buttons are given its text as their name
        self.button = widgets.Button(description="Answer", layout=_WIDE)
        self.unknown = widgets.Button(description=session.not_known, layout=_WIDE)
        self.button.on_click(lambda _: self._answer())
        self.unknown.on_click(lambda _: self._take(""))
        buttons = widgets.HBox([self.button, self.unknown], layout={"flex_flow": "row wrap"})
        super().__init__([self.feedback, self.question, buttons])
        self.add_class("course-answers")  # sent when they are complete, see keys.js
        self.refresh()

    def refresh(self, said: str = "", kind: str = "quiet") -> None:
        """Show the item that is open, or how the questions ended; ``said`` of the last answer."""
        item, session = self._session.item, self._session
        self.feedback.value = panel(kind, "", paragraph(said)) if said else ""
        self.button.disabled = self.unknown.disabled = item is None
        self.choice = self.box = None
        if item is None:
            self.text.value = panel("info", session.title, "".join(map(paragraph, session.conclusion())))
            self.question.children = [self.text]
            return
        is_choice = bool(item.choices) and not item.is_order
        below = [] if is_choice else [*item.lines()[1:], item.how]
        head = paragraph(f"{session.title}. {session.count}") + f"<strong>{paragraph(item.text)}</strong>"
        self.text.value = head + "".join(map(paragraph, below))
        if is_choice:
            lettered = zip(string.ascii_lowercase, item.choices, strict=False)
            labels = [(f"{letter}) {text}", place) for place, (letter, text) in enumerate(lettered)]
            self.choice = widgets.RadioButtons(options=labels, value=None, layout={"width": "auto"})
        else:
            self.box = widgets.Text(
                description="Your answer:",
                continuous_update=False,  # a busy kernel holds back all changes of a box but the first
                style={"description_width": "initial"},
                layout={"width": "auto", "min_width": "16em", "max_width": "30em"},
            )
        self.question.children = [self.text, self.choice or self.box]

    def _answer(self) -> None:
        if self._session.item is None:
            return
        given = self.choice.value if self.choice else self.box.value.strip() if self.box else None
        if given in (None, ""):
            self.refresh_note("Give an answer first, or say that you do not know.")
            return
        self._take(string.ascii_lowercase[given] if self.choice else str(given))

    def _take(self, text: str) -> None:
        try:
            said = self._session.take(text)
        except ValueError as error:
            self.refresh_note(f"✗ {error}")
            return
        self.refresh(said, "good" if said.startswith("✓") else "bad" if said.startswith("✗") else "quiet")

    def refresh_note(self, said: str) -> None:
        """Say something, and leave the question and what was typed as they are."""
        self.feedback.value = panel("quiet", "", paragraph(said))
