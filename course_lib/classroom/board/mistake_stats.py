"""What the class met: which checks hold up how many, and which named mistakes were met by how many and how often."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from course_lib.classroom.board.read_shared import Learner
from course_lib.learn.checks.lesson_index import LessonIndex

__all__ = ["CheckLine", "MistakeLine", "checks", "mistakes"]

_NO_TRY = ("not attempted", "blocked")
_LONGEST = 60


@dataclass(frozen=True)
class CheckLine:
    """A check: how many learners tried it, passed it, and needed hints or the solution.

    ``tries`` is the median of how often those tried whom it holds up; of all who tried, where it holds up nobody.
    """

    name: str
    place: str
    tried: int
    passed: int
    tries: float
    hinted: int
    solved: int  # who had the solution shown

    @property
    def held_up(self) -> int:
        """How many tried and have not passed."""
        return self.tried - self.passed


@dataclass(frozen=True)
class MistakeLine:
    """A named mistake of a check: how many learners met it, and how often it was met."""

    check: str
    place: str
    mistake: str
    learners: int
    times: int

    @property
    def words(self) -> str:
        return self.mistake.replace("-", " ")


@dataclass
class _Tally:
    tries: Counter[str] = field(default_factory=Counter)
    passed: set[str] = field(default_factory=set)
    hinted: set[str] = field(default_factory=set)
    solved: set[str] = field(default_factory=set)


def checks(learners: Sequence[Learner], known: LessonIndex, lesson: str = "") -> tuple[CheckLine, ...]:
    """The checks that somebody tried; those that hold up the most come first."""
    tallies: dict[str, _Tally] = {}
    for one in learners:
        for event in one.events:
            tally = tallies.setdefault(event["name"], _Tally())
            match event["event"]:
                case "check" if event.get("status") not in _NO_TRY:
                    tally.tries[one.word] += 1
                    if event.get("status") == "passed":
                        tally.passed.add(one.word)
                case "hint":
                    tally.hinted.add(one.word)
                case "solution":
                    tally.solved.add(one.word)
    lines = [
        _check_line(name, known.place(name), tally)
        for name, tally in tallies.items()
        if tally.tries and known.is_in(known.place(name), lesson)
    ]
    return tuple(sorted(lines, key=lambda line: (-line.held_up, line.place, line.name)))


def _check_line(name: str, place: str, tally: _Tally) -> CheckLine:
    stuck = [count for word, count in tally.tries.items() if word not in tally.passed]
    tries = statistics.median(stuck or tally.tries.values())
    counts = (len(tally.tries), len(tally.passed), tries, len(tally.hinted), len(tally.solved))
    return CheckLine(name, place, *counts)


def mistakes(learners: Sequence[Learner], known: LessonIndex, lesson: str = "") -> tuple[MistakeLine, ...]:
    """The named mistakes that checks told of; those that most learners met come first."""
    met: dict[tuple[str, str], Counter[str]] = {}
    for one in learners:
        for event in one.events:
            mistake = event.get("mistake")
            if event["event"] == "check" and isinstance(mistake, str) and mistake:
                met.setdefault((event["name"], mistake[:_LONGEST]), Counter())[one.word] += 1
    lines = [
        MistakeLine(name, known.place(name), mistake, len(who), who.total())
        for (name, mistake), who in met.items()
        if known.is_in(known.place(name), lesson)
    ]
    return tuple(sorted(lines, key=lambda line: (-line.learners, -line.times, line.check, line.mistake)))
