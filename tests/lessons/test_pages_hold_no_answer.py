"""A learner's page holds no answer: no explanation, no model, no misreading of a question, no solution."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache

import nbformat
import pytest

from course_lib.base.paths import project_root
from course_lib.learn import exercises
from course_lib.learn.exercises import predictions_of, quiz_of
from course_lib.lessons.info import lessons, source_files
from course_lib.lessons.source import read_source

pytestmark = pytest.mark.xdist_group("pages_of_lessons")  # each page is read once

ROOT = project_root()
SOURCES = {info.number: source_files(ROOT, info.number) for info in lessons()}
A_PHRASE = 6  # words in a row that give something away


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", re.sub(r"[*`_]", "", text).casefold())


def phrases(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + A_PHRASE]) for i in range(len(found) - A_PHRASE + 1)}


@cache
def page(lesson: str) -> str:
    """All that a learner can read in the notebook, code and text; where a new cell begins no phrase goes on."""
    paths = [ROOT / "notebooks" / f"{source.stem}.ipynb" for source in SOURCES[lesson]]
    return "\n".join(cell.source for path in paths for cell in nbformat.read(path, as_version=4).cells)


def told_sentences(lesson: str) -> Iterator[str]:
    """Every text in the functions that tell, f-strings piece by piece; and what the quiz says after an answer."""
    for module in {inspect.getmodule(asked.tell) for asked in predictions_of(lesson)}:
        for function in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(function, ast.FunctionDef):
                texts = (node.value for node in ast.walk(function) if isinstance(node, ast.Constant))
                yield from (text for text in texts if isinstance(text, str))
    for question in quiz_of(lesson):
        yield question.because
        yield from question.misconceptions.values()


@pytest.mark.parametrize("lesson", SOURCES)
def test_no_page_explains_before_it_is_asked(lesson):
    shown = phrases(page(lesson))
    given_away = {" ".join(phrase) for text in told_sentences(lesson) for phrase in phrases(text) & shown}
    assert not given_away, sorted(given_away)


@pytest.mark.parametrize("lesson", SOURCES)
def test_no_page_holds_what_a_reveal_tells(lesson):
    assert not re.findall(r"^.*\b(?:because|misreadings)\s*=.*$", page(lesson), re.MULTILINE)


@pytest.mark.parametrize("lesson", SOURCES)
def test_no_page_holds_a_solution(lesson):
    """Lines that only the solved copy has are on the learner's page nowhere else."""
    learner = {line.strip() for line in page(lesson).splitlines()}
    leaked = []
    for cell in (cell for path in SOURCES[lesson] for cell in read_source(path).cells):
        if cell.is_code and "### BEGIN SOLUTION" in cell.text:
            inside = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.text, re.DOTALL)
            lines = [line.strip() for block in inside for line in block.splitlines() if "###" not in line]
            leaked += [line for line in lines if len(words(line)) >= A_PHRASE and line in learner]
    assert not leaked


def test_asking_and_revealing_are_one_line_each():
    plumbing = 0
    for lesson in SOURCES:
        text = page(lesson)
        assert not re.search(r"^\w+ = Predict\(", text, re.MULTILINE), f"lesson {lesson} makes a question on its page"
        assert ".reveal(" not in text, f"lesson {lesson} explains on its page"
        plumbing += len(re.findall(r"^(?:ask|reveal)\(.*$", text, re.MULTILINE))
        for call in re.findall(r"^(?:ask|reveal)\((?:[^()]|\([^()]*\))*\)", text, re.MULTILINE):
            assert "\n" not in call, f"lesson {lesson}: {call}"
    assert plumbing <= sum(2 * len(predictions_of(lesson)) for lesson in SOURCES)


@pytest.mark.parametrize("lesson", SOURCES)
def test_every_prediction_is_asked_once_and_told_once(lesson):
    for asked in exercises.predictions_of(lesson):
        assert len(re.findall(rf'\bask\("{re.escape(asked.name)}"\)', page(lesson))) == 1, asked.name
        assert len(re.findall(rf'\breveal\("{re.escape(asked.name)}"', page(lesson))) == 1, asked.name


@pytest.mark.parametrize("step", ["08.split_awkward", "10.ring_awkward", "10.experts_awkward", "12.job_awkward"])
def test_the_page_of_a_build_names_nothing_of_the_courses_that_is_an_answer(step):
    """`??` on such a name shows the course's build before the learner's has passed; adapters show none."""
    lesson, build = step.partition(".")[0], step.partition("_")[0]
    text = next(path.read_text(encoding="utf-8") for path in SOURCES[lesson] if f'build="{build}"' in path.read_text())
    answers = [name for name in exercises.exercise(step).forbidden if name.startswith("course_lib.")]
    named = [name for name in answers if re.search(rf"\b{name.rpartition('.')[2]}\b", text)]
    assert not named
