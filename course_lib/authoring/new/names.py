"""What is asked for by its name: a lesson, an exercise of it, a part; and the sentence where that cannot be."""

from __future__ import annotations

import difflib
import keyword
import re
from pathlib import Path

from course_lib.learn import exercises

__all__ = ["exercise_name", "part_name"]


def exercise_name(word: str) -> tuple[str, str]:
    """ "07.name" as lesson and name. Raises ValueError for another form, another lesson, and a name that is taken."""
    found = re.fullmatch(r"(\d\d)\.([a-z][a-z0-9_]*)", word)
    if not found or keyword.iskeyword(found[2]):
        raise ValueError(f"an exercise is called by lesson and name, as 07.name in small letters; {word!r} is not.")
    lesson, name = found.groups()
    _need_lesson(lesson)
    if word in (one.name for one in exercises.exercises_of(lesson)):
        raise ValueError(f"there is an exercise {word} already. Give it another name.")
    return lesson, name


def part_name(root: Path, number: str, name: str) -> tuple[str, str]:
    """ "07d" and "name" as lesson and name; the letter is the next one of that lesson, else ValueError."""
    found = re.fullmatch(r"(\d\d)([a-z])", number)
    if not found:
        raise ValueError(f"a part is called by lesson and letter, as 07d; {number!r} is not.")
    lesson, letter = found.groups()
    _need_lesson(lesson)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"the name of a part is words in small letters, as idle_time; {name!r} is not.")
    there = sorted(path.stem[2] for path in (root / "notebooks" / "src").glob(f"{lesson}[a-z]_*.py"))
    following = chr(ord(there[-1]) + 1) if there else "a"
    if letter != following:
        raise ValueError(
            f"{number} is not the next part of lesson {lesson}, which has {', '.join(there) or 'no letters'}."
            f" The nearest is {lesson}{following}."
        )
    return lesson, name


def _need_lesson(lesson: str) -> None:
    numbers = exercises.lesson_numbers()
    if lesson not in numbers:
        near = (difflib.get_close_matches(lesson, numbers, n=1, cutoff=0.0) or [numbers[-1]])[0]
        raise ValueError(
            f"there is no lesson {lesson}; there are {numbers[0]} to {numbers[-1]}. The nearest is {near}."
        )
