"""What the learner's function may cost a page in time is bounded, and told."""

from __future__ import annotations

import time

import cloudpickle
import pytest
from own_library import zigzag_kept

from course_lib import Cluster, mine
from course_lib.cluster import RankError
from course_lib.mine import budget, courses
from course_lib.mine.again import check_again
from course_lib.mine.budget import OwnFunction, TooSlowError


def ended_by(name, function, limit_s):
    return OwnFunction(name, f"digest of {name}", function, limit_s)


def test_a_call_in_the_notebook_that_does_not_end_is_ended_and_the_course_goes_on(anna, capsys):
    def forever(*_):
        while True:
            time.sleep(0.01)

    own = ended_by("positions_of", forever, 0.3)
    assert own(0, 2, 8) == courses.positions_of(0, 2, 8)
    told = capsys.readouterr().out
    assert "mine.positions_of, which is yours, has used its 0.3 s of this page" in told
    assert own(1, 2, 8) == courses.positions_of(1, 2, 8)
    assert not capsys.readouterr().out


def test_calls_add_up_to_the_limit_and_no_single_one_does(anna, capsys, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(budget.time, "perf_counter", lambda: next(clock))
    calls = []
    own = ended_by("my_share", lambda *args: calls.append(args) or range(0), 2.5)
    results = [own(4, 0, 2) for _ in range(5)]  # each takes a second of this clock
    assert results == [range(0)] * 3 + [range(0, 2)] * 2
    assert len(calls) == 3


def test_an_error_is_the_learners_and_says_whose_function_it_is(anna):
    def raises(*_):
        raise ValueError("uneven")

    with pytest.raises(ValueError, match="uneven") as told:
        ended_by("my_share", raises, 5.0)(4, 0, 2)
    assert any("is yours (mine/basics.py); COURSE_MINE=0" in note for note in told.value.__notes__)


def test_what_is_missing_in_a_call_is_named():
    with pytest.raises(TypeError, match="world_size"):
        ended_by("my_share", lambda *_: None, 5.0)(4, rank=0)


def test_on_ranks_it_is_an_error_that_says_what_to_do():
    own = ended_by("positions_of", courses.positions_of, 0.0)
    with Cluster(2) as ranks, pytest.raises(RankError, match="has used its 0 s of this page; run this cell again"):
        ranks.run(lambda me, f: f(me.rank, 2, 8), own)


def test_after_an_error_on_ranks_the_courses_stands_in_until_it_passes_again(anna, capsys, monkeypatch):
    zigzag_kept(capsys)
    own = mine.positions_of
    own.limit_s = 0.0
    monkeypatch.setattr(budget, "_is_on_rank", lambda: True)
    with pytest.raises(TooSlowError):
        own(0, 2, 8)
    anna.become()
    capsys.readouterr()
    assert cloudpickle.loads(cloudpickle.dumps(own)) is courses.positions_of  # also one that a page took before
    assert "from here on the course's function runs in its place" in capsys.readouterr().out
    assert mine.positions_of is courses.positions_of
    assert "yours took over 60 s of a page" in capsys.readouterr().out
    assert check_again("positions_of").passed
    assert mine.positions_of is not courses.positions_of
