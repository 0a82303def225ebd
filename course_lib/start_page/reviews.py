"""Missed questions, and on which day each is asked again: the next day, then after 3, 7 and 21 days.

Each right answer on its day leads to the longer wait, and the last one ends it; a wrong one leads back to the next day.
All is counted from the progress file: predictions, quizzes, problems on paper, and what was asked again here.

Source: the spacing of flash cards, as in Leitner, "So lernt man lernen" (1972), with other days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

__all__ = ["AFTER_DAYS", "MOST_A_DAY", "ReviewState", "due_on", "review_states"]

AFTER_DAYS = (1, 3, 7, 21)
MOST_A_DAY = 2
_KIND_OF = {"predict": "prediction", "quiz": "quiz", "problem": "problem"}


@dataclass(frozen=True)
class ReviewState:
    """A question that was missed: when, how many right answers since on its day, and when it is due."""

    kind: str  # "prediction", "quiz" or "problem"
    name: str
    missed_on: date
    due_on: date
    step: int = 0


def review_states(events: Iterable[Mapping[str, Any]]) -> list[ReviewState]:
    """The questions that are still to be asked again, those that are due first in front."""
    states: dict[tuple[str, str], ReviewState] = {}
    for event in events:
        answer = _answer(event)
        if answer is None:
            continue
        kind, right, day = answer
        key = kind, str(event["name"])
        if not right:
            states[key] = ReviewState(*key, day, day + timedelta(days=AFTER_DAYS[0]))
        elif key in states and day >= states[key].due_on:
            step = states[key].step + 1
            if step == len(AFTER_DAYS):
                del states[key]
            else:
                states[key] = replace(states[key], step=step, due_on=day + timedelta(days=AFTER_DAYS[step]))
    return sorted(states.values(), key=lambda one: (one.due_on, one.name, one.kind))


def due_on(events: Iterable[Mapping[str, Any]], today: date) -> list[ReviewState]:
    """What is asked again on a day: two at most, those counted in that were asked again on it already."""
    known = list(events)
    asked = sum(event["event"] == "review" and _day(event) == today for event in known)
    due = [one for one in review_states(known) if one.due_on <= today]
    return due[: max(0, MOST_A_DAY - asked)]


def _answer(event: Mapping[str, Any]) -> tuple[str, bool, date] | None:
    """Which kind of question an event answers, whether it is right, and the day; None for what answers none."""
    kind = event.get("kind") if event["event"] == "review" else _KIND_OF.get(str(event["event"]))
    day = _day(event)
    is_bet = event["event"] == "predict" and event.get("kind") == "bet"
    right = False if event.get("shown") is True else event.get("right")
    if kind not in _KIND_OF.values() or day is None or is_bet or not isinstance(right, bool):
        return None
    return str(kind), right, day


def _day(event: Mapping[str, Any]) -> date | None:
    """The day of an event where the learner is; None where its time cannot be read."""
    try:
        return datetime.fromisoformat(str(event.get("time"))).astimezone().date()
    except (ValueError, OverflowError, OSError):
        return None
