"""Tests of one ``xdist_group`` stay in one process: they share ranks, and launches that cost seconds."""

from __future__ import annotations

import os

import pytest
from lesson_names import lesson_of


@pytest.mark.xdist_group("together")
def test_a_test_knows_its_group(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs all tests, so they are together")
    assert request.node.nodeid.endswith("@together"), "pytest-xdist and this pytest do not work together"


@pytest.mark.xdist_group("exercises")
@pytest.mark.parametrize("exercise", ["lesson-less", "03.replicas"], ids=str)
def test_exercises_are_grouped_by_lesson(request: pytest.FixtureRequest, exercise: str) -> None:
    groups = {mark.args[0] for mark in request.node.iter_markers("xdist_group")}
    assert groups == {"exercises", "lesson_03" if exercise == "03.replicas" else "lesson_"}


@pytest.mark.parametrize(
    ("nodeid", "lesson"),
    [
        ("tests/lessons/test_lesson_07_verdicts.py::test_a[08]", "07"),
        ("tests/lessons/test_predictions_07.py::test_a", "07"),
        ("tests/learn/test_exercises.py::test_the_solution[01.ledger]", "01"),
        ("tests/learn/test_exercises.py::test_a_mistake[04.drift:halves]", "04"),
        ("tests/learn/test_exercises.py::test_there_are_exercises", ""),
    ],
)
def test_a_test_tells_its_lesson(nodeid: str, lesson: str) -> None:
    assert lesson_of(nodeid) == lesson
