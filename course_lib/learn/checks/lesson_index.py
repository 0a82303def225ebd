"""Which part of a lesson a name belongs to ("04.sampler" to 04b), and what the parts, checks and questions are called.

The parts come from the lessons' sources; where a copy of the course has none, a place is the whole lesson.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["AskedQuestion", "LessonIndex", "places", "question", "title_of_check"]

_NO_LIMIT = 1e15  # what a question's number may be where nothing is said

_CHECK = re.compile(r"""\bcheck\(\s*["'](\d\d\.\w+)["']""")
_ASK = re.compile(r"""\bask\(\s*["'](\d\d\.\w+)["']""")
_NAMED = re.compile(r"""\b(?:check|ask|reveal|hint|solution)\(\s*["'](\d\d\.\w+)["']""")
_QUIZ = re.compile(r"""\bquiz\(\s*["'](\d\d[a-z]?)["']""")
_BETS = re.compile(r"""\b(?:bet|settle)\(([^)]*)\)""")


@dataclass(frozen=True)
class LessonIndex:
    """The parts in order with their titles, and the part of each name."""

    titles: dict[str, str] = field(default_factory=dict)
    part_of: dict[str, str] = field(default_factory=dict)
    quiz_in: dict[str, str] = field(default_factory=dict)
    checks_in: dict[str, list[str]] = field(default_factory=dict)
    asked_in: dict[str, list[str]] = field(default_factory=dict)

    def place(self, name: str, event: str = "check") -> str:
        """The part to which a name belongs, else its lesson."""
        number = name[:2]
        if event == "quiz":
            return self.quiz_in.get(_quiz_of(name), number)
        return self.part_of.get(name, number)

    def is_in(self, place: str, lesson: str) -> bool:
        """Whether a place is the lesson ("04"), or the part ("04a"), that is asked for; "" is everything."""
        return place.startswith(lesson) or (len(place) == 2 and lesson.startswith(place))

    def title(self, place: str) -> str:
        if place in self.titles:
            return self.titles[place]
        return next((text.partition(": ")[0] for label, text in self.titles.items() if label[:2] == place), "")

    def need(self, lesson: str) -> str:
        """The lesson as it is written here. Raises ``ValueError`` for one that there is not, with those there are."""
        wanted = lesson.strip().lower()
        known = [*self.titles, *sorted({label[:2] for label in self.titles})]
        if not re.fullmatch(r"\d\d[a-z]?", wanted) or (known and wanted not in known):
            parts = ", ".join(self.titles) or "00 to 14"
            raise ValueError(f"there is no lesson {lesson!r}; there are {parts}, and a whole lesson is two digits")
        return wanted


def places(root: Path | None = None) -> LessonIndex:
    """What the sources below ``root`` (by default this copy of the course) say."""
    from course_lib.base.paths import project_root
    from course_lib.lessons.info import LessonError, lesson_info, source_files

    found = LessonIndex()
    for path in source_files(root or project_root()):
        try:
            info, text = lesson_info(path), path.read_text(encoding="utf-8")
        except (OSError, LessonError, UnicodeDecodeError):
            continue  # a lesson that cannot be read has no title here, and is still counted
        found.titles[info.label] = info.title
        names = [*_NAMED.findall(text)]
        for group in _BETS.findall(text):
            names += [f"{info.number}.{claim}" for claim in re.findall(r"""["']([A-Z]\d+)["']""", group)]
        for name in names:
            found.part_of.setdefault(name, info.label)
        found.checks_in[info.label] = list(dict.fromkeys(_CHECK.findall(text)))
        found.asked_in[info.label] = list(dict.fromkeys(_ASK.findall(text)))
        for quiz in _QUIZ.findall(text):
            found.quiz_in[quiz] = info.label
    return found


@dataclass(frozen=True)
class AskedQuestion:
    """What was asked: its text, its choices in their order, and how far a number could go."""

    text: str = ""
    choices: tuple[str, ...] = ()
    high: float | None = None


def question(name: str) -> AskedQuestion:
    """The question, or the claim, of this name; an empty one where this course has none. Imports the lesson's room."""
    asked = _room(name[:2])[0].get(name)
    if asked is not None:
        high = asked.high if asked.high < _NO_LIMIT else None
        return AskedQuestion(asked.question, tuple(map(str, asked.choices or ())), high)
    return _claims().get(name, AskedQuestion()) if name.startswith("13.") else AskedQuestion()


def _quiz_of(name: str) -> str:
    """The quiz that asks this: of a lesson ("10"), or of a part ("10f"). Imports the lesson's room."""
    return name[:2] + _room(name[:2])[2].get(name, "")


def title_of_check(name: str) -> str:
    """What an exercise is called, or nothing. Imports the lesson's room."""
    found = _room(name[:2])[1].get(name)
    return found.title if found else ""


@lru_cache(maxsize=32)
def _room(lesson: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """By name the predictions and the exercises of a lesson, and the parts of its quizzes' questions; none where it
    cannot be imported, as without torch.
    """
    from course_lib.learn import exercises

    if lesson not in exercises.lesson_numbers():
        return {}, {}, {}
    try:
        asked, tried = exercises.predictions_of(lesson), exercises.exercises_of(lesson)
        quiz = exercises.quiz_of(lesson)
    except ImportError:
        return {}, {}, {}
    parts = {f"{lesson}.{one.name}": one.part for one in quiz}
    return {one.name: one for one in asked}, {one.name: one for one in tried}, parts


@lru_cache(maxsize=1)
def _claims() -> dict[str, AskedQuestion]:
    try:
        from course_lib.claims import CLAIMS, VERDICTS
    except ImportError:
        return {}
    return {f"13.{claim.name}": AskedQuestion(claim.text, tuple(VERDICTS)) for claim in CLAIMS}
