"""The learner's own beside the course's: whose it is, both runs, and a version that fails or hangs."""

from __future__ import annotations

import pytest
from own_library import zigzag_kept

from course_lib import mine
from course_lib.cluster import RankFailed
from course_lib.mine import courses


def test_who_has_built_nothing_hears_nothing(anna, capsys):
    assert mine.if_passed("positions_of") is None
    assert capsys.readouterr().out == ""
    assert not anna.home.exists()


def test_what_has_passed_is_given_and_a_line_says_whose_it_is(anna, capsys):
    zigzag_kept(capsys)
    own = mine.if_passed("positions_of")
    assert own is not None
    assert own(1, 2, 8) == [2, 3, 4, 5]
    assert capsys.readouterr().out.startswith(f"mine.positions_of is yours: {anna.context}, which passed 10.zigzag on ")


def test_an_edit_that_no_check_has_passed_is_not_run_and_the_line_says_why(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 1 + 1"))
    assert mine.if_passed("positions_of") is None
    assert "in the place of yours: what stands in mine/context.py has not passed" in capsys.readouterr().out


def test_switched_off_it_is_as_for_who_has_built_nothing(anna, capsys, monkeypatch):
    zigzag_kept(capsys)
    monkeypatch.setenv("COURSE_MINE", "0")
    assert mine.if_passed("positions_of") is None
    assert capsys.readouterr().out == ""


def test_a_name_that_the_library_does_not_have_is_told_those_that_it_has(anna):
    with pytest.raises(ValueError, match=r"no 'positions' in a library .*positions_of \(10\.zigzag\)"):
        mine.if_passed("positions")


def test_both_are_run_the_courses_first(capsys):
    assert mine.beside(lambda twice: twice(3), lambda x: 2 * x, lambda x: x + x) == {"the course's": 6, "yours": 6}
    assert list(mine.beside(lambda twice: twice(3), lambda x: 2 * x, lambda x: x + x)) == ["the course's", "yours"]
    assert mine.beside(lambda twice: twice(3), lambda x: 2 * x, None) == {"the course's": 6}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("seven\nmore"), "so the course's stands alone. ValueError: seven\n"),
        (AssertionError(), "so the course's stands alone. AssertionError.\n"),
    ],
)
def test_one_that_fails_is_left_out_and_said(capsys, error, says):
    def fails():
        raise error

    assert mine.beside(lambda run: run(), lambda: 6, fails) == {"the course's": 6}
    said = capsys.readouterr().out
    assert said == f"Yours did not come to its end here, {says}"


def test_an_error_of_the_courses_own_is_raised():
    with pytest.raises(ZeroDivisionError):
        mine.beside(lambda run: run(), lambda: 1 / 0, lambda: 6)


def waits_for_nobody(me):
    """A message that rank 1 never sends."""
    import torch
    import torch.distributed as dist

    if me.rank == 0:
        dist.recv(torch.zeros(1), 1)


def goes_round_for_ever(me):
    while True:
        pass


def fails_on_its_rank(me):
    raise RuntimeError("an idea that did not work")


@pytest.mark.parametrize("own", [waits_for_nobody, goes_round_for_ever, fails_on_its_rank])
def test_one_that_fails_or_hangs_on_ranks_is_ended_and_the_courses_is_shown(cluster2, capsys, own):
    found = mine.beside(
        lambda function: cluster2.call(function, timeout_s=2, show=False).results, lambda me: me.rank, own
    )
    assert found == {"the course's": {0: 0, 1: 1}}
    assert "Yours did not come to its end here, so the course's stands alone. Rank" in capsys.readouterr().out
    with pytest.raises(RankFailed):
        cluster2.call(fails_on_its_rank, show=False)  # the ranks are there for the next cell


def test_the_stand_in_of_the_course_is_never_called_yours(anna, capsys):
    """``mine.NAME`` falls back to it; ``if_passed`` does not."""
    assert mine.positions_of is courses.positions_of
    assert mine.if_passed("positions_of") is None
