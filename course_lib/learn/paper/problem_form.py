"""The form of a lesson's problems: for each its text, a box, and what is said; all reachable by keyboard."""

from __future__ import annotations

import ipywidgets as widgets

from course_lib.forms import Form
from course_lib.forms.show import panel, paragraph
from course_lib.learn.catalogue.problem_spec import PaperProblem
from course_lib.learn.paper.sheet import ProblemSheet
from course_lib.learn.paper.shown import way_as_html

__all__ = ["OneProblem", "ProblemForm"]

_WIDE = {"width": "max-content"}


class OneProblem(widgets.VBox):
    """One problem. What is typed stays until other numbers are drawn; no control goes away, so the focus stays."""

    def __init__(self, sheet: ProblemSheet, number: int, one: PaperProblem) -> None:
        self._sheet, self._number, self._one = sheet, number, one
        self.text, self.feedback, self.way = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.box = widgets.Text(
            description=f"Answer {number}, in {one.unit}:",
            placeholder="a number",
            continuous_update=False,  # a busy kernel holds back all changes of a box but the first
            style={"description_width": "initial"},
            layout={"width": "auto", "min_width": "16em", "max_width": "30em"},
        )
        self.check = widgets.Button(description=f"Check answer {number}", layout=_WIDE)
        self.show = widgets.Button(description=f"Show the way of {number}", layout=_WIDE)
        self.anew = widgets.Button(description=f"Other numbers for {number}", layout=_WIDE)
        self.check.on_click(self._check)
        self.show.on_click(self._show)
        self.anew.on_click(self._anew)
        buttons = widgets.HBox([self.check, self.show, self.anew], layout={"flex_flow": "row wrap"})
        super().__init__([self.text, self.box, buttons, self.feedback, self.way])
        self.refresh()

    def refresh(self, said: str = "", kind: str = "quiet") -> None:
        """Show the problem as it stands; ``said`` of the last answer."""
        drawn, standing = self._sheet.drawn(self._one), self._sheet.standing[self._one.name]
        sign = "✓ " if standing.is_right else "◐ " if standing.is_shown or standing.tries else ""
        title = f"<strong>{paragraph(f'{sign}{self._number}. {self._one.title}')}</strong>"
        self.text.value = f"{title}{paragraph(drawn.text)}"
        self.feedback.value = panel(kind, "", paragraph(said)) if said else ""
        self.way.value = way_as_html(drawn) if standing.is_over else ""

    def _check(self, _: widgets.Button) -> None:
        if not self.box.value.strip():
            self.refresh("Type an answer first.")
            return
        try:
            said = self._sheet.feedback(self._one, self.box.value)
        except ValueError as error:
            self.refresh(f"✗ {error}", "bad")
            return
        self.refresh(said, "good" if said.startswith("✓") else "bad")

    def _show(self, _: widgets.Button) -> None:
        self._sheet.show_way(self._one)
        self.refresh()

    def _anew(self, _: widgets.Button) -> None:
        self._sheet.draw_anew(self._one)
        self.box.value = ""
        self.refresh("Other numbers.")


class ProblemForm(Form):
    """All problems of a sheet, and a line that counts those solved."""

    def __init__(self, sheet: ProblemSheet) -> None:
        self.rows = tuple(OneProblem(sheet, number, one) for number, one in enumerate(sheet.problems, start=1))
        self.count = widgets.HTML(paragraph(sheet.count()))
        for row in self.rows:
            for button in (row.check, row.show, row.anew):
                button.on_click(lambda _: setattr(self.count, "value", paragraph(sheet.count())))
        super().__init__([*self.rows, self.count])
        self.add_class("course-answers")  # sent when they are complete, see keys.js
