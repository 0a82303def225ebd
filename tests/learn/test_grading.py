"""``check`` while nbgrader marks: what the notebook has changed counts for nothing, and a miss is an error."""

from __future__ import annotations

import json
import os
import threading

import pytest

from course_lib.learn.checks import checking, grading
from course_lib.learn.checks.grading import NotPassed, check, need_passed
from course_lib.learn.display import verdict


def my_share(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra))


def drops_the_rest(num_items: int, rank: int, world_size: int) -> range:
    print("something")
    size = num_items // world_size
    return range(rank * size, (rank + 1) * size)


for answer in (my_share, drops_the_rest):
    answer.__module__ = "__main__"  # as written in a notebook: it travels by value


def test_a_right_answer_costs_no_error():
    assert check("00.share", my_share).passed
    need_passed("00.share")
    with pytest.raises(NotPassed, match="was not checked"):
        need_passed("00.share")  # a verdict counts once


@pytest.mark.long
def test_what_the_notebook_made_of_the_course_counts_for_nothing(monkeypatch, capfd):
    monkeypatch.setattr(checking, "judged", lambda exercise, answer: verdict.Verdict(exercise.name, "passed", "mine"))
    monkeypatch.setattr(checking, "check", lambda name, answer: True)
    monkeypatch.setattr(verdict.Verdict, "passed", True)
    monkeypatch.setattr(verdict.Verdict, "__bool__", lambda self: True)
    found = check("00.share", drops_the_rest)
    assert (found.status, found.mistake) == ("not yet", "drops-the-rest")
    assert found.printed.startswith("something")
    with pytest.raises(NotPassed, match=r"✗ 00\.share: not yet"):
        need_passed("00.share")
    assert not capfd.readouterr().err  # nbgrader takes a line on stderr for a failure


def test_a_check_that_was_not_run_gives_nothing():
    with pytest.raises(NotPassed, match=r"00\.mean was not checked"):
        need_passed("00.mean")


def test_a_name_that_no_exercise_has():
    assert check("00.shore", my_share).status == "blocked"
    with pytest.raises(NotPassed, match=r'Did you mean "00\.share"'):
        need_passed("00.shore")


@pytest.mark.xdist_group("lesson_00")  # whose ranks are warm
def test_what_cannot_travel_is_tried_here_and_says_so():
    lock = threading.Lock()

    def locked(num_items: int, rank: int, world_size: int) -> range:
        with lock:
            return my_share(num_items, rank, world_size)

    locked.__module__ = "__main__"
    found = check("00.share", locked)
    assert found.passed
    assert "notebook's own process" in found.warning
    assert "lock" in found.warning
    need_passed("00.share")


@pytest.mark.long
def test_what_cannot_be_made_again_is_tried_here_and_says_so(monkeypatch):
    def cannot(folder):
        (folder / "verdict").write_text(json.dumps({"cannot": "it cannot be made again in another."}))
        return 0, ""

    monkeypatch.setattr(grading, "_run", cannot)
    assert "cannot be made again" in check("00.share", my_share).warning


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(grading, "LIMIT_S", 0.01)
    assert check("00.share", my_share).status == "too slow"
    with pytest.raises(NotPassed, match=r"tried for 0\.01 seconds"):
        need_passed("00.share")


@pytest.mark.parametrize("left", ["nothing", "half"])
def test_a_process_that_ends_early_is_an_error_of_the_answer(monkeypatch, left):
    def ends(folder):
        if left == "half":
            (folder / "verdict").write_text('{"verdict": {"exer')
        return 9, "Killed"

    monkeypatch.setattr(grading, "_run", ends)
    assert check("00.share", my_share).status == "raised"
    with pytest.raises(NotPassed, match=r"exit code 9\); it last said: Killed"):
        need_passed("00.share")


class EndsTheProcess:
    def __reduce__(self):
        return os._exit, (5,)


@pytest.mark.long
def test_an_answer_that_ends_the_process_in_which_it_is_made_again():
    assert "exit code 5" in check("00.share", EndsTheProcess()).message


@pytest.mark.long
@pytest.mark.parametrize("name", ["00.report", "02.ring", "05.unit", "07.design", "08.between", "09.place", "14.two"])
def test_reference_solutions_pass_in_a_fresh_process(name):
    from course_lib.learn.checks.reference import reference_answer

    found = check(name, reference_answer(name))
    assert found.passed, found
    assert not found.warning
