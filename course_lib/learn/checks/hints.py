"""``hint("07.split")``: one step further at each call. ``solution("07.split")``: where the answer stands."""

from __future__ import annotations

import html
from dataclasses import dataclass

from course_lib.forms.show import Shown, escape, panel, paragraph, show
from course_lib.learn import exercises
from course_lib.learn.checks.reference import place_of
from course_lib.learn.records.store import record
from course_lib.lessons.info import heading_link

__all__ = ["HintNote", "hint", "shown_note", "solution"]

_given: dict[str, int] = {}  # how many hints of each exercise this session has seen


@dataclass(frozen=True, repr=False)
class HintNote(Shown):
    """A short text with a title, and perhaps a link beside the notebook."""

    title: str
    text: str
    link: str = ""

    def __repr__(self) -> str:
        return f"{self.title}: {self.text}"

    def _html(self) -> str:
        body = paragraph(self.text)
        if self.link:
            label = escape(self.link.partition("#")[0])
            body += f"<p style='margin:0.2em 0'><a href='{html.escape(self.link)}'>{label}</a></p>"
        return panel("info", self.title, body)


def hint(name: str) -> HintNote:
    """Show the next of the three hints of an exercise; after the third, say where the solution is."""
    try:
        exercise = exercises.exercise(name)
    except ValueError as error:
        return shown_note(HintNote("hint", str(error)))
    step = _given.get(name, 0) + 1
    if step > len(exercise.hints):
        text = f'That was the last hint. `solution("{name}")` says where the solution stands.'
        return shown_note(HintNote(f"{name}, no more hints", text))
    _given[name] = step
    record("hint", name, step=step)
    return shown_note(HintNote(f"{name}, hint {step} of {len(exercise.hints)}", exercise.hints[step - 1]))


def solution(name: str) -> HintNote:
    """Show where the solution of an exercise stands in the solution notebooks."""
    try:
        exercises.exercise(name)
        place = place_of(name)
    except ValueError as error:
        return shown_note(HintNote("solution", str(error)))
    record("solution", name)
    heading = f", under “{place.heading}”" if place.heading else ""
    text = f"The solution, with its output, is cell {place.cell} of `{place.notebook}`{heading}."
    return shown_note(
        HintNote(f"{name}, solution", text, place.notebook.removeprefix("notebooks/") + heading_link(place.heading))
    )


def shown_note(note: HintNote) -> HintNote:
    """Show it, and return it."""
    show(note)
    return note
