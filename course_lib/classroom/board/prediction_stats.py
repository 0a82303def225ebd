"""What everybody predicted, question by question, and what the runs of those who saw one gave. No names."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.classroom.board.read_shared import Event, Learner
from course_lib.learn.checks.lesson_index import LessonIndex

__all__ = ["Answer", "Guesses", "guesses"]

_LONGEST = 120
_MOST, _LEAST = 1e15, 1e-15  # beyond the one nobody can predict, below the other it is nothing
_KINDS = ("number", "choice", "order", "bet")
Value = float | str


@dataclass(frozen=True)
class Answer:
    """What runs, or models, said: one value for all, and of numbers the least and the most."""

    value: Value
    low: float | None = None
    high: float | None = None
    count: int = 0

    @property
    def is_spread(self) -> bool:
        """Whether the least and the most are further apart than runs of one thing are."""
        if self.low is None or self.high is None:
            return False
        return self.high - self.low > 0.1 * max(abs(self.low), abs(self.high))


@dataclass
class Guesses:
    """A question: everybody's values (numbers, or texts), what was measured, what the model says.

    ``seen`` counts learners who saw the measurement, ``right`` those of them who had predicted right; ``bare`` those
    whose file, written by an older course, says how far off they were and not what they predicted.
    """

    name: str
    place: str
    kind: str = "number"
    unit: str = ""
    values: list[Value] = field(default_factory=list)
    measured: list[Value] = field(default_factory=list)
    models: list[Value] = field(default_factory=list)
    label: str = "measured"
    seen: int = 0
    right: int = 0
    bare: int = 0

    @property
    def numbers(self) -> list[float]:
        return [value for value in self.values if isinstance(value, float)]

    @property
    def middle(self) -> float | None:
        """The median of the numbers predicted."""
        return statistics.median(self.numbers) if self.numbers else None

    def answer(self, of: str) -> Answer | None:
        """What "measured" or "model" comes to over all who saw it: the median, or what most saw."""
        given = self.measured if of == "measured" else self.models
        numbers = [value for value in given if isinstance(value, float)]
        if self.kind == "number":
            if not numbers:
                return None
            return Answer(statistics.median(numbers), min(numbers), max(numbers), len(numbers))
        texts = Counter(map(str, given)).most_common(1)
        return Answer(texts[0][0], count=texts[0][1]) if texts else None


def guesses(learners: Sequence[Learner], known: LessonIndex, lesson: str = "") -> tuple[Guesses, ...]:
    """The questions of a lesson, or of all, that somebody answered, in the order of their places."""
    found: dict[str, Guesses] = {}
    for one in learners:
        for name, events in _by_question(one).items():
            if known.is_in(known.place(name), lesson):
                _count(found.setdefault(name, Guesses(name, known.place(name))), events)
    kept = [one for one in found.values() if one.values or one.seen]
    order = {name: place for place, name in enumerate(known.part_of)}
    return tuple(sorted(kept, key=lambda one: (one.place, order.get(one.name, len(order)), one.name)))


def _by_question(one: Learner) -> dict[str, list[Event]]:
    """A learner's events about predictions, up to the first that showed what is right: later guesses are none."""
    found: dict[str, list[Event]] = {}
    closed: set[str] = set()
    for event in one.events:
        name = event["name"]
        if name not in closed and _is_about_a_prediction(event):
            found.setdefault(name, []).append(event)
            if event["event"] in ("predict", "trial") and not event.get("blocked"):
                closed.add(name)
    return found


def _is_about_a_prediction(event: Event) -> bool:
    kind = event["event"]
    return kind in ("guess", "bet", "trial") or (kind == "predict" and event.get("kind") != "bet")


def _count(into: Guesses, events: Sequence[Event]) -> None:
    value: Value | None = None
    for event in events:
        match event["event"]:
            case "guess":
                value = _facts(into, event, "value")
            case "bet":
                into.kind, value = "bet", _value(event.get("verdict"))
            case "trial" if not event.get("blocked"):
                into.kind = "bet"
                _add(into.measured, _value(event.get("verdict")))
                into.seen += 1
                into.right += value is not None and value == _value(event.get("verdict"))
            case "predict":
                value = _facts(into, event, "predicted") if "predicted" in event else value
                into.bare += value is None
                into.seen += 1
                into.right += event.get("right") is True
                _add(into.measured, _value(event.get("measured")))
                _add(into.models, _value(event.get("model")))
                into.label = str(event.get("label") or into.label)[:_LONGEST]
    _add(into.values, value)


def _facts(into: Guesses, event: Event, key: str) -> Value | None:
    if event.get("kind") in _KINDS:
        into.kind = str(event["kind"])
    if isinstance(event.get("unit"), str):
        into.unit = event["unit"][:_LONGEST]
    return _value(event.get(key))


def _value(value: Any) -> Value | None:
    """A number as a float, a text as it is, an order as "a, b, c"."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        if not abs(number) <= _MOST:  # also what is no number at all
            return None
        return number if abs(number) >= _LEAST else 0.0
    if isinstance(value, list):
        return ", ".join(map(str, value))[: 2 * _LONGEST]
    return value[:_LONGEST] if isinstance(value, str) else None


def _add(to: list[Value], value: Value | None) -> None:
    if value is not None:
        to.append(value)
