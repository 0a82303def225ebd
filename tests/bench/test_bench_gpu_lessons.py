"""Step ``lessons`` of ``course bench gpu`` and its time, which is kept: for want of it no lesson is told as failed."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_tasks import LIMIT_S, outcomes

from course_lib.authoring.bench.gpu import lessons
from course_lib.authoring.bench.gpu.child import Ended


@pytest.fixture
def six(tmp_path, monkeypatch):
    """Six lessons, of which ``run_child`` is to be replaced."""
    source = tmp_path / "notebooks" / "src"
    source.mkdir(parents=True)
    for number in range(1, 7):
        (source / f"0{number}_a_try.py").touch()
    monkeypatch.setattr(lessons, "project_root", lambda: tmp_path)


def with_cores(monkeypatch, cores: int) -> None:
    monkeypatch.setattr(lessons, "machine", lambda: SimpleNamespace(cores=cores))


@pytest.mark.parametrize(("cores", "num_at_once"), [(2, 1), (4, 1), (8, 2), (12, 3), (192, 3)])
def test_lessons_run_side_by_side_where_there_are_cores(task, six, monkeypatch, cores, num_at_once):
    together = threading.Barrier(num_at_once)  # is passed by so many at once alone
    running, most = [], []

    def child(command, *, limit_s, folder, env):
        running.append(command)
        together.wait(30.0)
        most.append(len(running))
        together.wait(30.0)
        running.remove(command)
        return Ended(0, "", 1.0)

    with_cores(monkeypatch, cores)
    monkeypatch.setattr(lessons, "run_child", child)
    lessons.run(task)
    assert list(outcomes(task).values()) == ["passed"] * 6
    assert max(most) == num_at_once
    assert task.notes["lessons at a time"] == num_at_once


@pytest.mark.parametrize(
    ("output", "where"),
    [("--- cell 1 of 4, 01_a_try.py:7\n", "in cell 1 of 4, 01_a_try.py:7"), ("", "before its first cell")],
)
def test_a_lesson_that_is_not_over_in_time_has_not_failed(task, six, monkeypatch, output, where):
    with_cores(monkeypatch, 2)
    monkeypatch.setattr(lessons, "run_child", lambda command, **_: Ended(None, output, 9.0))
    lessons.run(task)
    assert set(outcomes(task).values()) == {"not run"}
    assert {part["why"] for part in task.parts} == {f"out of time: not over after 9 s, {where}"}
    assert not task.table.rows


def test_lessons_that_come_to_no_end_keep_to_the_time_of_the_step(task, six, monkeypatch):
    limits_s = []

    def child(command, *, limit_s, folder, env):
        limits_s.append(limit_s)
        task.end_s -= limit_s  # in place of waiting for so long
        return Ended(None, "", limit_s)

    with_cores(monkeypatch, 2)
    monkeypatch.setattr(lessons, "run_child", child)
    lessons.run(task)
    assert 1 < len(limits_s) < 6
    assert sum(limits_s) <= LIMIT_S
    assert list(outcomes(task).values()) == ["not run"] * 6
    assert task.parts[-1]["why"] == "out of time: the step's was over before this lesson began"


def test_each_lesson_has_a_home_of_its_own(task, six, monkeypatch):
    homes = []

    def child(command, *, limit_s, folder, env):
        homes.append(Path(env["COURSE_HOME"]))
        assert homes[-1].is_dir()
        return Ended(0, "", 1.0)

    with_cores(monkeypatch, 2)
    monkeypatch.setattr(lessons, "run_child", child)
    lessons.run(task)
    assert len(set(homes)) == 6
    assert not any(home.exists() for home in homes)


def test_a_lesson_that_cannot_be_started_does_not_keep_the_others(task, six, monkeypatch):
    def child(command, **_):
        if command[-1].endswith("02_a_try.py"):
            raise OSError("no room for another process")
        return Ended(0, "", 1.0)

    with_cores(monkeypatch, 2)
    monkeypatch.setattr(lessons, "run_child", child)
    lessons.run(task)
    assert outcomes(task) == {f"0{number}_a_try": "failed" if number == 2 else "passed" for number in range(1, 7)}
    assert "no room for another process" in next(part["why"] for part in task.parts if part["outcome"] == "failed")
