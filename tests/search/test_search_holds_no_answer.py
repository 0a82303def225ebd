"""Nothing that `course find` can show is an answer: no told sentence, no line of a solution, no room of exercises."""

from __future__ import annotations

import re

import pytest
from lessons import test_pages_hold_no_answer as pages

from course_lib.base.paths import project_root
from course_lib.lessons.info import source_files
from course_lib.search.entry import SearchEntry
from course_lib.search.sources import HOLDS_ANSWERS, search_files

pytestmark = pytest.mark.xdist_group("pages_of_lessons")
FEWEST_WORDS = 7  # shorter sentences are turns of speech
# What is told and found all the same, since it gives no answer away.
NO_ANSWER = {
    "if the number moves other work on this machine is in it",  # of every reveal: how to find out what is apart
    "an all reduce is a reduce scatter and an all gather",  # 02a explains it, before it is told in 08
    "and the target's logit which one rank has",  # of the library's own loss, which 08b names
}
# A call of PyTorch's that the page itself gives, for a loss that has to be safe from large numbers.
USUAL = {"dist.all_reduce(largest, op=dist.ReduceOp.MAX)"}


@pytest.fixture(scope="module")
def entries() -> list[SearchEntry]:
    return [entry for file in search_files(project_root()) for entry in file.entries()]


def sentences(text: str) -> set[str]:
    """The words of each sentence that is long enough to say something."""
    parts = [pages.words(part) for part in re.split(r"(?<=[.?!;])\s+", text)]
    return {" ".join(words) for words in parts if len(words) >= FEWEST_WORDS}


def test_every_lesson_the_glossary_and_the_library_are_searched(entries: list[SearchEntry]) -> None:
    files = {entry.file for entry in entries}
    assert {f"notebooks/{path.stem}.ipynb" for path in source_files(project_root())} <= files
    assert {"notebooks/tour.ipynb", "notebooks/glossary.md", "docs/commands.md", "README.md"} <= files
    assert "course_lib/parallel/collectives/ring.py" in files
    assert {entry.kind for entry in entries} == {"word", "lesson", "docs", "library", "message"}


def test_no_file_that_holds_answers_is_searched(entries: list[SearchEntry]) -> None:
    held = ("notebooks/solutions/", "docs/instructor/lessons/", *(f"course_lib/{room}/" for room in HOLDS_ANSWERS))
    assert not [entry.file for entry in entries if entry.file.startswith(held)]


def test_no_sentence_of_a_reveal_or_of_a_quiz_is_found(entries: list[SearchEntry]) -> None:
    told = {one for lesson in pages.SOURCES for text in pages.told_sentences(lesson) for one in sentences(text)}
    assert len(told) > 1000
    searched = " \n ".join(" ".join(pages.words(entry.text)) for entry in entries)
    assert {one for one in told if one in searched} <= NO_ANSWER


def test_no_line_of_a_solution_is_found(entries: list[SearchEntry]) -> None:
    texts = [path.read_text() for path in source_files(project_root())]
    solved = [block for text in texts for block in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, re.S)]
    lines = {line.strip() for block in solved for line in block.splitlines() if "###" not in line}
    long = {line for line in lines if len(pages.words(line)) >= pages.A_PHRASE}
    assert len(long) > 100
    searched = "\n".join(entry.text for entry in entries if entry.kind in ("lesson", "word", "docs"))
    assert {line for line in long if line in searched} <= USUAL
