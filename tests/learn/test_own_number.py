"""A learner's own number: another one for each, the same in every session, and one for all where nothing is kept."""

from __future__ import annotations

import re

import pytest

from course_lib.base.paths import project_root
from course_lib.learn import own_number
from course_lib.learn.records import own_number as room
from course_lib.learn.records.store import Store

NAMES = ("12.dead", "12.missing", "12.slow")


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """Become a learner by a word."""

    def become(name):
        monkeypatch.setenv("COURSE_HOME", str(tmp_path / name))
        kept = Store(tmp_path / name / "progress.jsonl")
        monkeypatch.setattr(room, "store", lambda: kept)
        monkeypatch.setattr(
            room, "record", lambda event, name, **more: kept.append({"event": event, "name": name, **more})
        )
        return kept

    return become


def test_where_nothing_is_kept_it_is_the_same_in_every_run():
    assert [own_number(name, 4) for name in NAMES] == [own_number(name, 4) for name in NAMES]
    assert all(0 <= own_number(f"x{number}", 3) < 3 for number in range(50))


def test_it_differs_among_learners_and_stays_with_each(learner):
    drawn = {}
    for number in range(12):
        learner(f"learner {number}")
        drawn[number] = tuple(own_number(name, 4) for name in NAMES)
        assert drawn[number] == tuple(own_number(name, 4) for name in NAMES)
    assert len(set(drawn.values())) > 4
    assert all(len({numbers[place] for numbers in drawn.values()}) > 1 for place in range(3))


def test_it_is_drawn_once_and_kept_in_the_record(learner, monkeypatch):
    kept = learner("Ada")
    value = own_number("12.slow", 4)
    assert [(event["event"], event["name"], event["value"]) for event in kept.read()] == [("drawn", "12.slow", value)]
    monkeypatch.setattr(room, "whose", lambda: "Ada, on another machine")
    assert own_number("12.slow", 4) == value
    assert len(kept.read()) == 1


def test_a_number_below_nothing_is_refused():
    for below in (0, -1, True, 2.5):
        with pytest.raises(ValueError, match="at least 1"):
            own_number("x", below)


def test_no_page_of_12b_says_which_rank_it_is():
    page = (project_root() / "notebooks" / "src" / "12b_when_ranks_die.py").read_text(encoding="utf-8")
    assert {name for name in NAMES if f'own_number("{name}", 4)' in page} == set(NAMES)
    assert not re.search(r"kill\(rank=\d|[Rr]ank \d (is|was) killed|manual_seed\((5|12)\)", page)
    notes = (project_root() / "docs" / "instructor" / "lessons" / "12.md").read_text(encoding="utf-8")
    assert "rank 3" not in notes
