"""``scoreboard()``: all claims by article, how many bets were right, and whether "how sure" was well said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from course_lib.base.text import columns
from course_lib.forms.show import Shown, panel, paragraph, show, table, unbroken
from course_lib.learn.records.bet_records import SURE, BetStatus, brier, is_own, standings

__all__ = ["ArticleLine", "Scoreboard", "board_of", "scoreboard"]

_SIGNS = {1.0: "✓", 0.5: "≈", 0.0: "✗"}
_LEGEND = "✓ right, ≈ near, ✗ not so, – seen without a bet, ? cannot tell here, ● bet and not tried, · open"


def _sign(stands: BetStatus) -> str:
    if stands.mark is not None:
        return _SIGNS[stands.mark]
    if stands.is_settled:
        return "–"
    return "?" if stands.was_blocked else "●" if stands.bet else "·"


@dataclass(frozen=True)
class ArticleLine:
    """One article: its claims in order, and how it stands with each."""

    letter: str
    title: str
    standing: tuple[BetStatus, ...]

    @property
    def marks(self) -> tuple[float, ...]:
        return tuple(one.mark for one in self.standing if one.mark is not None)

    def row(self) -> list[str]:
        told = f"{self.marks.count(1.0)} of {len(self.marks)}" if self.marks else "–"
        mean = f"{sum(self.marks) / len(self.marks):.0%}" if self.marks else "–"
        blocked = sum(one.was_blocked and not one.is_settled for one in self.standing)
        return [self.letter, "".join(map(_sign, self.standing)), told, mean, str(blocked) if blocked else "–"]


@dataclass(frozen=True, repr=False)
class Scoreboard(Shown):
    """The articles, calibration of "how sure", and the reader's own claims."""

    lines: tuple[ArticleLine, ...]
    own: tuple[tuple[str, BetStatus], ...] = ()

    @property
    def every(self) -> tuple[BetStatus, ...]:
        """All claims of the articles."""
        return tuple(one for line in self.lines for one in line.standing)

    def total(self) -> list[str]:
        row = ArticleLine("all", "", self.every).row()
        return [row[0], f"{sum(one.is_settled for one in self.every)} of {len(self.every)} seen", *row[2:]]

    def calibration(self) -> list[list[str]]:
        """For each "how sure" that was said: how many bets, and what they came to on average."""
        rows = []
        for sure in SURE:
            marks = [one.mark for one in self.every if one.bet and one.mark is not None and one.bet.sure == sure]
            if marks:
                rows.append([f"{sure} %", str(len(marks)), f"{sum(marks) / len(marks):.0%}"])
        return rows

    def sentences(self) -> list[str]:
        """The score, and which way the misses went."""
        score = brier(self.every)
        if score is None:
            return ["No bet has been settled yet."]
        missed = [one for one in self.every if one.mark == 0.0]
        trusted = sum(bool(one.bet) and one.verdict in ("misleading", "false") for one in missed)
        told = [
            f"Brier score {score:.2f}: the mean of (how sure - mark)², where a mark is 1 for right, 1/2 for near and 0 "
            "for neither. 0 is perfect; to say 50 % each time gives 0.25 at most. It is least for those who say what "
            "they believe."
        ]
        if missed:
            told.append(
                f"{len(missed)} went wrong: you trusted {trusted} that cannot be relied on, and doubted "
                f"{len(missed) - trusted} that can."
            )
        return told

    def _own_rows(self) -> list[list[str]]:
        return [
            [
                name,
                one.text,
                str(one.bet) if one.bet else "none",
                one.verdict or _NOT_SETTLED[one.was_blocked],
            ]
            for name, one in self.own
        ]

    def __repr__(self) -> str:
        text = columns([_HEAD, *(line.row() for line in self.lines), self.total()])
        text += [_LEGEND]
        if self.calibration():
            text += ["", *columns([_SURE_HEAD, *self.calibration()])]
        text += ["", *self.sentences()]
        if self.own:
            text += ["", "Your own claims, which are no part of the score:", *columns(self._own_rows())]
        return "\n".join(text)

    def _html(self) -> str:
        rows = [[f"{line.letter}: {line.title}", *line.row()[1:]] for line in self.lines]
        body = table(_HEAD, [[title, *map(unbroken, row)] for title, *row in [*rows, self.total()]])
        body += paragraph(_LEGEND)
        if self.calibration():
            body += table(_SURE_HEAD, self.calibration())
        body += "".join(map(paragraph, self.sentences()))
        if self.own:
            body += paragraph("Your own claims, which are no part of the score:")
            body += table(["", "the claim", "your bet", "your trial"], self._own_rows())
        return panel("info", "Claims on trial", body)


_NOT_SETTLED = {False: "not tried", True: "cannot tell here"}
_HEAD = ["article", "claim by claim", "right", "mean mark", "cannot tell here"]
_SURE_HEAD = ["you said", "bets", "mean mark"]


def board_of(kept: Mapping[str, BetStatus], claims: Iterable[str], titles: Mapping[str, str]) -> Scoreboard:
    """The board for these bets: ``claims`` are the names of the articles' claims, in order."""
    names = list(claims)
    lines = [
        ArticleLine(letter, title, tuple(kept.get(name, BetStatus()) for name in names if name[0] == letter))
        for letter, title in titles.items()
    ]
    own = [(name, stands) for name, stands in kept.items() if is_own(name) and stands.text]
    return Scoreboard(tuple(lines), tuple(sorted(own, key=lambda one: (len(one[0]), one[0]))))


def scoreboard() -> Scoreboard:
    """Show how your bets stand, over all articles and all sessions, and return the board."""
    from course_lib.claims import ARTICLES, CLAIMS  # they import torch

    found = board_of(standings(), [claim.name for claim in CLAIMS], ARTICLES)
    show(found)
    return found
