"""Bets on claims: what a learner bet, how sure they were, what the trials said, and how good the bets were.

A bet may be changed until its trial has been seen; the first verdict that is none of "cannot tell here" settles it. All
of it is kept as other answers are, an event a line, and so it outlives the kernel. Nothing here runs a trial.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.records.store import record, store

__all__ = [
    "SURE",
    "Bet",
    "BetStatus",
    "brier",
    "is_own",
    "mark",
    "note_bet",
    "note_reset",
    "note_trial",
    "standings",
]

SURE = (25, 50, 70, 90)  # per cent; 25 is a guess among four verdicts
_CAN_RELY = {"holds", "holds with conditions"}
_CANNOT_RELY = {"misleading", "false"}
_LESSON = "13."

_session: list[dict[str, Any]] = []  # this kernel's own events, for where nothing can be kept


@dataclass(frozen=True)
class Bet:
    """A verdict, and how sure of it, in per cent."""

    verdict: str
    sure: int

    def __str__(self) -> str:
        return f"{self.verdict}, {self.sure} %"


@dataclass(frozen=True)
class BetStatus:
    """How it stands with a claim: the bet, what settled it, and whether a trial could not tell here."""

    bet: Bet | None = None
    verdict: str = ""  # empty: not settled
    was_blocked: bool = False
    text: str = ""  # of a claim of the reader's own

    @property
    def is_settled(self) -> bool:
        return bool(self.verdict)

    @property
    def is_seen_without_bet(self) -> bool:
        """Whether its trial ran before there was a bet, as it does after a Run All."""
        return self.is_settled and self.bet is None

    @property
    def mark(self) -> float | None:
        """1 for the trial's verdict, 1/2 for a near one, 0 for another; None without bet or verdict."""
        return mark(self.bet.verdict, self.verdict) if self.bet and self.verdict else None


def mark(bet: str, verdict: str) -> float:
    """1 for the same, 1/2 where both say that one may rely on the claim, or both that one may not; else 0."""
    if bet == verdict:
        return 1.0
    return 0.5 if {bet, verdict} <= _CAN_RELY or {bet, verdict} <= _CANNOT_RELY else 0.0


def brier(standing: Iterable[BetStatus]) -> float | None:
    """The mean of (how sure - mark)²: 0 is perfect. None where no bet has been settled.

    Whoever expects a mark of 0.7 loses least by saying 70 %, so it pays to say what one believes.
    """
    off = [(one.bet.sure / 100 - one.mark) ** 2 for one in standing if one.bet and one.mark is not None]
    return sum(off) / len(off) if off else None


def is_own(name: str) -> bool:
    """Whether the claim is the reader's own, Y1: shown on the board, and no part of the score."""
    return name.startswith("Y")


def note_bet(name: str, bet: Bet, text: str = "") -> None:
    """Keep a bet on the claim "A4"; ``text`` is the sentence of a claim of the reader's own."""
    _note("bet", name, verdict=bet.verdict, sure=bet.sure, text=text or None)


def note_trial(name: str, verdict: str, *, is_blocked: bool, text: str = "") -> BetStatus:
    """Keep what a trial said, and return how it stood *before*: that bet is the one to be judged."""
    before = _on(text, standings().get(name, BetStatus()))
    _note("trial", name, verdict=verdict, blocked=is_blocked or None, text=text or None)
    if before.bet and not is_blocked and not before.is_settled and not is_own(name):
        right = mark(before.bet.verdict, verdict) == 1
        record("predict", _LESSON + name, kind="bet", right=right)  # for the map of the lessons
    return before


def note_reset(name: str) -> None:
    """Open a claim again that was seen without a bet; what was bet on stands."""
    _note("reset", name)


def _note(event: str, name: str, **fields: Any) -> None:
    one = {**fields, "id": secrets.token_hex(4)}  # by which the same event is known in the file
    _session.append({"event": event, "name": _LESSON + name, **one})
    record(event, _LESSON + name, **one)


def standings() -> dict[str, BetStatus]:
    """How it stands with every claim that was bet on or tried, by name: what was kept, in its order, by whichever
    notebook; and then those of this kernel that could not be kept.
    """
    found: dict[str, BetStatus] = {}
    kept = store().read()
    ids = {event.get("id") for event in kept}
    for event in [*kept, *(event for event in _session if event["id"] not in ids)]:
        name = str(event["name"]).removeprefix(_LESSON)
        if event["event"] in ("bet", "trial", "reset") and name != event["name"]:
            found[name] = _after(found.get(name, BetStatus()), event, is_own(name))
    return found


def _on(text: str, before: BetStatus) -> BetStatus:
    """The bet on this sentence: a name of the reader's own may have stood for another one before."""
    return BetStatus() if text and before.text and text != before.text else before


def _after(before: BetStatus, event: Mapping[str, Any], own: bool) -> BetStatus:
    """The next state of a bet. A settled claim stays as it is; one's own may be bet on and tried again."""
    if event["event"] == "reset":
        return BetStatus() if before.is_seen_without_bet else before
    if before.is_settled and not own:
        return before
    verdict, text = str(event.get("verdict", "")), str(event.get("text") or before.text)
    before = _on(text, before)
    if event["event"] == "bet":
        sure = event.get("sure")
        return replace(before, bet=Bet(verdict, sure if isinstance(sure, int) else 50), text=text)
    if event.get("blocked"):
        return replace(before, was_blocked=True, text=text)
    return replace(before, verdict=verdict, text=text)
