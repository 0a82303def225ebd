"""Which parts are done, begun, or known from a placement: read from the events of a progress file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.base.text import and_list
from course_lib.learn import exercises
from course_lib.learn.checks.lesson_index import LessonIndex
from course_lib.lessons.info import LessonInfo
from course_lib.lessons.prerequisites import PREREQUISITES

__all__ = ["PartState", "builds_on", "known_parts", "part_states"]

_OF_PARTS = ("check", "hint", "solution", "guess", "predict", "quiz", "bet", "trial")


@dataclass(frozen=True)
class PartState:
    """A part of a lesson: "done", "known" (of a placement), "begun" or "open"; ``says`` how far it is."""

    info: LessonInfo
    state: str
    says: str = ""

    @property
    def label(self) -> str:
        return self.info.label or self.info.stem

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "known")


def known_parts(events: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The parts that the last placement found known, each with the questions that say so."""
    last = next((event for event in reversed(events) if event["event"] == "placement"), {})
    found = last.get("known")
    if not isinstance(found, dict):
        return {}
    return {str(part): [str(name) for name in names] for part, names in found.items() if isinstance(names, list)}


def part_states(
    infos: Sequence[LessonInfo], index: LessonIndex, events: Sequence[Mapping[str, Any]]
) -> list[PartState]:
    """How it stands with each part, in the order of ``infos``.

    A part is done when its checks have passed and its quiz is right; one that has neither, when its predictions have
    been seen. One that leaves no record, as the tour, is done when anything has been recorded.
    """
    seen, known = _Seen(index, events), known_parts(events)
    return [_state(info, seen, known) for info in infos]


def builds_on(label: str, states: Mapping[str, PartState], path: Sequence[str]) -> str:
    """A sentence on the parts that this one builds on, by the table: how it stands with each.

    ``states`` has those of all parts by their labels, and ``path`` the labels of the path that was chosen.
    """
    needed = PREREQUISITES.get(label, ())
    if not needed:
        return "It builds on no other part."
    return f"It builds on {and_list([f'{one} ({_how(one, states, path)})' for one in needed])}."


def _how(label: str, states: Mapping[str, PartState], path: Sequence[str]) -> str:
    state = states[label].state if label in states else "open"
    if state in ("done", "known"):
        return state
    begun = "begun" if state == "begun" else "not done"
    return begun if label in path else f"{begun}, and not on your path"


class _Seen:
    """What the events say, by part."""

    def __init__(self, index: LessonIndex, events: Sequence[Mapping[str, Any]]) -> None:
        self.index = index
        self.passed, self.predicted, self.right = set[str](), set[str](), set[str]()
        self.touched: set[str] = set()
        for event in events:
            name, kind = str(event["name"]), event["event"]
            if kind not in _OF_PARTS:
                continue
            self.touched.add(index.place(name, kind))
            if kind == "check" and event.get("status") == "passed":
                self.passed.add(name)
            elif kind == "predict":
                self.predicted.add(name)
            elif kind == "quiz" and event.get("right") is True:
                self.right.add(name)

    def count(self, label: str) -> list[tuple[int, int, str]]:
        """How many of a part's checks and quiz questions are done, of how many, and what they are called."""
        checks = self.index.checks_in.get(label, [])
        found = [(sum(name in self.passed for name in checks), len(checks), "check")] if checks else []
        quizzes = [quiz for quiz, part in self.index.quiz_in.items() if part == label]
        if quizzes and not any(name.startswith(f"{label[:2]}.") for name in self.right):
            return [*found, (0, 0, "quiz")]  # not begun: its questions need not be loaded to be counted
        for quiz in quizzes:
            names = [f"{quiz[:2]}.{one.name}" for one in exercises.quiz_of(quiz[:2]) if one.part == quiz[2:]]
            found.append((sum(name in self.right for name in names), len(names), "question"))
        return found


def _state(info: LessonInfo, seen: _Seen, known: Mapping[str, Sequence[str]]) -> PartState:
    label = info.label
    counts = seen.count(label)
    asked = seen.index.asked_in.get(label, [])
    predicted = sum(name in seen.predicted for name in asked)
    if counts:
        is_done = all(done == number and number for done, number, _ in counts)
    else:
        is_done = predicted == len(asked) if asked else bool(seen.touched)
    says = [f"{done} of {number} {what}s" for done, number, what in counts if number]
    says += [f"{predicted} of {len(asked)} predictions"] if asked else []
    if is_done:
        return PartState(info, "done", ", ".join(says))
    if label in known:
        return PartState(info, "known", f"by the placement: {', '.join(known[label])}")
    return PartState(info, "begun" if label in seen.touched else "open", ", ".join(says))
