"""The table of what waits for ``--long`` names tests that there are, and keeps at least one case of nearly each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from breadth import KEPT, more_of_the_same

TESTS = Path(__file__).resolve().parent


@pytest.mark.parametrize("file_name", KEPT)
def test_it_names_tests_that_there_are(file_name):
    (path,) = TESTS.rglob(file_name)
    there = set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
    assert set(KEPT[file_name]) <= there
    assert all(kept >= 0 for kept in KEPT[file_name].values())


class Case:
    def __init__(self, name, is_long=False):
        self.originalname, self.name, self.path = name, f"{name}[x]", Path("tests/test_trial_again.py")
        self.is_long = is_long

    def get_closest_marker(self, name):
        return self.is_long or None


def test_the_first_cases_of_a_test_are_kept():
    name = "test_a_message_says_what_was_seen"
    cases = [Case(name) for _ in range(8)] + [Case(name, is_long=True), Case("test_another")]
    assert more_of_the_same(cases) == cases[6:8]
