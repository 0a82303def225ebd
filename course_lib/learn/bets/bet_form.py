"""The form of bets on claims: for each its sentence, a verdict and how sure; one button for all."""

from __future__ import annotations

import ipywidgets as widgets

from course_lib.forms import Form
from course_lib.forms.show import escape, paragraph
from course_lib.learn.bets.open_bets import OpenBets, to_open_again
from course_lib.learn.records.bet_records import SURE, Bet, BetStatus, is_own

__all__ = ["BetForm", "BetRow"]

_NOT_CHOSEN = ("choose ...", "")


class BetRow(widgets.VBox):
    """One claim: its sentence, and two menus."""

    def __init__(self, name: str, text: str, verdicts: tuple[str, ...]) -> None:
        self.name = name
        style = {"description_width": "initial"}
        self.verdict = widgets.Dropdown(
            options=[_NOT_CHOSEN, *((one, one) for one in verdicts)],
            description=f"{name}: your bet",
            style=style,
            layout={"width": "auto", "min_width": "18em"},
        )
        self.sure = widgets.Dropdown(
            options=[_NOT_CHOSEN, *((f"{one} %", one) for one in SURE)],
            description="how sure?",
            style=style,
            layout={"width": "auto", "min_width": "10em"},
        )
        claim = widgets.HTML(f"<p style='margin:0.4em 0 0'><strong>{escape(name)}</strong> {escape(text)}</p>")
        super().__init__([claim, widgets.HBox([self.verdict, self.sure], layout={"flex_flow": "row wrap"})])

    def given(self) -> Bet | None:
        """The bet that the menus show; None while one of them is open."""
        if self.verdict.value == "" or self.sure.value == "":
            return None
        return Bet(self.verdict.value, int(self.sure.value))

    def fill(self, stands: BetStatus) -> None:
        """Show what is kept; a claim whose trial has been seen is closed."""
        if stands.bet:
            self.verdict.value, self.sure.value = stands.bet.verdict, stands.bet.sure
        closed = stands.is_settled and not is_own(self.name)
        self.verdict.disabled = self.sure.disabled = closed


class BetForm(Form):
    """All rows, the button "Lock my bets", and a line that says how things stand."""

    def __init__(self, bets: OpenBets) -> None:
        self._bets = bets
        self.rows = tuple(BetRow(name, claim.text, bets.verdicts) for name, claim in bets.claims.items())
        self.button = widgets.Button(description="Lock my bets", tooltip="Lock my bets", icon="lock")
        self.status = widgets.HTML()
        self.button.on_click(self._lock)
        super().__init__([*self.rows, self.button, self.status])
        self.add_class("course-answers")  # sent when they are complete, see keys.js
        self.refresh()

    def refresh(self, said: str = "") -> None:
        """Show how the bets stand, from what is kept."""
        standing = self._bets.standing()
        for row in self.rows:
            row.fill(standing[row.name])
        locked = sum(stands.bet is not None for stands in standing.values())
        settled = sum(stands.is_settled for stands in standing.values())
        unbet = [name for name, stands in standing.items() if stands.is_seen_without_bet]
        if settled == len(standing):
            text = "✓ All of these trials have been seen."
            text += f" {to_open_again(unbet)}" if unbet else ""
        elif locked == len(standing):
            text = "✓ All locked. Now run the next cell. Until then you may change your mind."
        elif locked:
            text = f"◐ {locked} of {len(standing)} locked."
        else:
            text = "○ Open: bet before you run the next cell, for a verdict that has been seen takes no bet."
        self.status.value = paragraph(f"{said} {text}".strip())

    def _lock(self, _: widgets.Button) -> None:
        given = {row.name: bet for row in self.rows if (bet := row.given()) is not None and not row.verdict.disabled}
        half = [
            row.name for row in self.rows if row.given() is None and (row.verdict.value, row.sure.value) != ("", "")
        ]
        late = self._bets.lock(given)
        said = f"✗ {', '.join(half)}: choose both, a verdict and how sure." if half else ""
        if late:
            said = f"{said} The trial of {', '.join(late)} has been seen: not kept.".strip()
        self.refresh(said)
