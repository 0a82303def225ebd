"""Texts that need no run: the solved copies show quizzes and worked problems as the library words them today.

The builder compares code and not what the library prints, so a sentence changed there is found here at once and not
only when nbval runs the page.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from course_lib.base.paths import project_root
from course_lib.learn import problems, quiz
from course_lib.learn.exercises import lesson_numbers, quiz_of

SOLVED = sorted((project_root() / "notebooks" / "solutions").glob("*.ipynb"))
TEXT = re.compile(r'(quiz|problems)\("(\d\d[a-z]?)"(, ways=True)?\)')


def shown_texts(path: Path) -> list[tuple[str, str]]:
    """The cells of a solved copy that show a quiz or problems and nothing else, each with the text it shows."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        (cell.source, cell.outputs[0].data["text/plain"])
        for cell in cells
        if cell.cell_type == "code" and TEXT.fullmatch(cell.source)
    ]


CASES = [(path, *case) for path in SOLVED for case in shown_texts(path)]


def test_each_quiz_is_shown_once_and_that_of_a_part_in_its_part():
    """A question is never asked before its subject."""
    shown = sorted((TEXT.fullmatch(source)[2], path.stem[:3]) for path, source, _ in CASES if source.startswith("quiz"))
    there_are = {number + question.part for number in lesson_numbers() for question in quiz_of(number)}
    assert [label for label, _ in shown] == sorted(there_are)
    assert len(shown) == 15 + 6
    for label, page in shown:
        assert page.startswith(label), f'quiz("{label}") stands in {page}'


@pytest.mark.parametrize(("path", "source", "shown"), CASES, ids=lambda value: getattr(value, "stem", str(value)[:13]))
def test_it_shows_what_the_library_says_now(path: Path, source: str, shown: str):
    what, lesson, ways = TEXT.fullmatch(source).groups()
    now = quiz(lesson) if what == "quiz" else problems(lesson, ways=bool(ways))
    assert shown == repr(now), f"{path.name} is out of date: ./course build --force {path.stem[:3]}"
