"""How long a class took for each part, and for each check until it passed: from the times of what learners answered."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise

from course_lib.classroom.board.progress_by_part import where
from course_lib.classroom.board.read_shared import Event, Learner
from course_lib.learn.checks.lesson_index import LessonIndex

__all__ = ["PAUSE_MINUTES", "PartMinutes", "last_day", "minutes_by_part", "minutes_until_passed", "on_day"]

PAUSE_MINUTES = 20
"""Where nothing was answered for longer, it was a pause, which counts for no part."""


@dataclass(frozen=True)
class PartMinutes:
    """A part: the minutes of each learner who answered something in it, in order of size, and how many are through.

    A learner's minutes are those between one answer and the next, where the next belongs to the part. What came before
    their first answer of the day is not in them, nor is a pause.
    """

    place: str
    minutes: tuple[float, ...]
    begun: int
    through: int | None

    @property
    def median(self) -> float:
        return statistics.median(self.minutes) if self.minutes else 0.0


def last_day(learners: Iterable[Learner]) -> date | None:
    """The last day on which somebody answered, by the clock where they were; None where no time was kept."""
    times = [time for one in learners for event in one.events if (time := _time_of(event))]
    return max((time.date() for time in times), default=None)


def on_day(learners: Iterable[Learner], day: date) -> list[Learner]:
    """Those who answered something on that day, with these answers alone, in the order of time."""
    found = []
    for one in learners:
        timed = [(time, event) for event in one.events if (time := _time_of(event)) and time.date() == day]
        if timed:
            found.append(Learner(one.label, one.word, tuple(event for _, event in sorted(timed, key=_first))))
    return found


def minutes_by_part(learners: Sequence[Learner], known: LessonIndex, lesson: str = "") -> tuple[PartMinutes, ...]:
    """For each part in which somebody answered, in the order of the course; of ``lesson`` where given."""
    spent: dict[str, dict[str, float]] = {}
    for one in learners:
        for place, minutes in _spent(one.events, known):
            spent.setdefault(place, {}).setdefault(one.word, 0.0)
            spent[place][one.word] += minutes
    return tuple(
        PartMinutes(line.place, tuple(sorted(spent.get(line.place, {}).values())), line.begun, line.through)
        for line in where(learners, known, lesson)
    )


def minutes_until_passed(learners: Iterable[Learner]) -> dict[str, float]:
    """The median minutes from the first try of a check to the one that passed, without pauses; of those who passed."""
    taken: dict[str, list[float]] = {}
    for one in learners:
        tried: dict[str, float] = {}
        clock = 0.0
        for event, gap in zip(one.events, _gaps(one.events), strict=True):
            clock += gap
            if event["event"] != "check":
                continue
            began = tried.setdefault(event["name"], clock)
            if event.get("status") == "passed" and began >= 0:
                taken.setdefault(event["name"], []).append(clock - began)
                tried[event["name"]] = -1.0  # a later pass of the same check says nothing of how long it took
    return {name: statistics.median(minutes) for name, minutes in taken.items()}


def _spent(events: Sequence[Event], known: LessonIndex) -> Iterable[tuple[str, float]]:
    for event, gap in zip(events, _gaps(events), strict=True):
        yield known.place(event["name"], event["event"]), gap


def _gaps(events: Sequence[Event]) -> list[float]:
    """The minutes since the answer before; 0 for the first one, after a pause, and where a clock went back."""
    times = [_time_of(event) for event in events]
    gaps = [0.0] if events else []
    for before, after in pairwise(times):
        minutes = (after - before).total_seconds() / 60 if before and after else 0.0
        gaps.append(minutes if 0 <= minutes <= PAUSE_MINUTES else 0.0)
    return gaps


def _time_of(event: Event) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(event.get("time", "")))
    except ValueError:
        return None
    return time if time.tzinfo else None


def _first(pair: tuple[datetime, Event]) -> datetime:
    return pair[0]
