"""What a list of progress events adds up to: for each lesson what is passed, tried, missed and predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LessonSummary", "summary"]


@dataclass
class LessonSummary:
    """One lesson of one learner (or of several, when their events are given together).

    ``tries`` counts checks by exercise, ``mistakes`` the named mistakes that were met, ``hints`` the furthest
    hint by exercise, ``off`` predicted over measured by prediction.
    """

    passed: set[str] = field(default_factory=set)
    tries: Counter[str] = field(default_factory=Counter)
    mistakes: Counter[str] = field(default_factory=Counter)
    hints: dict[str, int] = field(default_factory=dict)
    solutions: set[str] = field(default_factory=set)
    predicted: set[str] = field(default_factory=set)
    predicted_right: set[str] = field(default_factory=set)
    off: dict[str, float] = field(default_factory=dict)
    quiz_right: set[str] = field(default_factory=set)
    quiz_tries: Counter[str] = field(default_factory=Counter)
    problems_right: set[str] = field(default_factory=set)

    def add(self, event: Mapping[str, Any]) -> None:
        """Count one event in. Kinds that this version does not know are left out."""
        name = str(event["name"])
        match event["event"]:
            case "check":
                self._add_check(name, event)
            case "hint":
                self.hints[name] = max(self.hints.get(name, 0), int(event.get("step", 1)))
            case "solution":
                self.solutions.add(name)
            case "quiz":
                self.quiz_tries[name] += 1
                if event.get("right"):
                    self.quiz_right.add(name)
            case "problem":
                if event.get("right") is True:
                    self.problems_right.add(name)
            case "predict":
                self._add_prediction(name, event)

    def _add_check(self, name: str, event: Mapping[str, Any]) -> None:
        if event.get("status") in ("not attempted", "blocked"):
            return
        self.tries[name] += 1
        if event.get("status") == "passed":
            self.passed.add(name)
        if event.get("mistake"):
            self.mistakes[f"{name} {event['mistake']}"] += 1

    def _add_prediction(self, name: str, event: Mapping[str, Any]) -> None:
        self.predicted.add(name)
        if event.get("right"):
            self.predicted_right.add(name)
        if isinstance(event.get("off"), int | float):
            self.off[name] = float(event["off"])


def summary(events: Iterable[Mapping[str, Any]]) -> dict[str, LessonSummary]:
    """The events by lesson ("00", "01", ...), in order. Pure: reads no file and knows no exercise."""
    lessons: dict[str, LessonSummary] = {}
    for event in events:
        number = str(event.get("name", ""))[:2]
        if number.isdigit():
            lessons.setdefault(number, LessonSummary()).add(event)
    return dict(sorted(lessons.items()))
