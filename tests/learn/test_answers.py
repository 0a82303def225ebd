"""Answers that readers wrote who had seen no judge: each gets its verdict, and no sentence that is not true of it."""

from __future__ import annotations

import pytest
from answer_table import answer_files, rows_of
from dear_exercises import DEAR

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.xdist_group("exercises")  # one process: ranks and oracles are warm after the first

# Each time the first row of every sixth table; the others with --long. Each costs what a check costs a learner, seconds
# on several ranks, and the solutions, which run each time, hand an answer to every judge.
EVERY = 6
ROWS = [
    pytest.param(
        name,
        row,
        id=f"{name}:{getattr(row.answer, '__name__', place)}",
        marks=[pytest.mark.long] if row.long or place > 0 or number % EVERY or name in DEAR else [],
    )
    for number, (name, path) in enumerate(answer_files())
    for place, row in enumerate(rows_of(path))
]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_an_answer_gets_the_verdict_that_it_deserves(name, row):
    verdict = judged(exercises.exercise(name), row.answer)
    assert verdict.status == row.verdict, (row.why, verdict)
    if row.mistake is not None:
        assert (verdict.mistake or "") == row.mistake, (row.why, verdict)
    told = f"{verdict.message} {verdict.evidence}"
    for words in row.words:
        assert words in told, (row.why, verdict)
    for words in row.unsaid:
        assert words not in told, (row.why, verdict)


def test_each_table_is_of_an_exercise_and_says_why():
    for name, path in answer_files():
        assert exercises.exercise(name).name == name
        for row in rows_of(path):
            assert row.why.strip()
