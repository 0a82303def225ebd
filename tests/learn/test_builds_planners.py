"""Planners beside published runs: a row for each run, dashes for what a planner cannot say yet."""

from __future__ import annotations

import pytest

from course_lib.learn import planners_side_by_side
from course_lib.mine import courses
from course_lib.plan.by_hand import shown_runs


class MemoryAlone(courses.MyPlanner):
    def time(self, layout):
        raise NotImplementedError("not yet")


class Nothing:
    def __init__(self, job, machines):
        raise NotImplementedError("not yet")


@pytest.fixture(scope="module")
def runs():
    return shown_runs("ultra-scale")[:2]


def test_each_run_has_its_memory_and_its_step_and_what_was_published(runs, capsys):
    found = planners_side_by_side({"the course's": courses.MyPlanner}, runs)
    assert list(found.columns) == ["the course's", "published"]
    assert list(found.columns["published"].values()) == ["61.1 GB", "7.98 s", "35.1 GB", "8.84 s"]
    assert found.columns["the course's"].keys() == found.columns["published"].keys()
    assert "61.1 GB" in capsys.readouterr().out


def test_what_a_planner_cannot_say_yet_is_a_dash(runs, capsys):
    found = planners_side_by_side({"yours": MemoryAlone, "an empty one": Nothing}, runs)
    assert [name.endswith("GB") for name in found.columns["yours"]] == [True, True]
    assert found.columns["an empty one"] == {}
    assert found.failures == {"an empty one": "NotImplementedError: not yet"}
    assert "–" in repr(found)
