"""Of a test with the mark ``first_cases`` so many cases run each time, and the others wait for ``--long``."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from breadth import more_of_the_same

TESTS = Path(__file__).resolve().parents[1]


def case(file: str, test: str, number: int, *marks: pytest.MarkDecorator) -> SimpleNamespace:
    known = {one.name: one.mark for one in marks}
    return SimpleNamespace(
        path=Path(file), originalname=test, name=f"{test}[{number}]", get_closest_marker=known.get, number=number
    )


def test_the_first_cases_of_each_test_stay_and_the_others_wait():
    two = pytest.mark.first_cases(2)
    items = [case("a.py", test, number, two) for number in range(4) for test in ("test_one", "test_other")]
    items += [case("b.py", "test_one", number, two) for number in range(3)]
    waiting = more_of_the_same(items)
    assert [item.number for item in waiting] == [2, 2, 3, 3, 2]


def test_what_is_not_marked_or_waits_already_is_left_alone():
    one = pytest.mark.first_cases(1)
    items = [case("a.py", "test_all", number) for number in range(3)]
    items += [case("a.py", "test_some", 0, one, pytest.mark.long), case("a.py", "test_some", 1, one)]
    assert more_of_the_same(items) == [], "one that waits by itself takes nobody's place"


def test_a_mark_keeps_at_least_one_case():
    """None at all is what ``@pytest.mark.long`` says."""
    text = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    kept = [
        int(number) for each in text for number in re.findall(r"^ *@pytest\.mark\.first_cases\((\d+)\)$", each, re.M)
    ]
    assert len(kept) > 50
    assert min(kept) > 0
