"""The job of lesson 12's clinic: its log is what the formula expects, and one change is scored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.cost import best_interval_s, expected_goodput
from course_lib.learn.sick.sick_job import SETTINGS, JobFailure, JobLog, Setup, changed, gained, log_of

DAY_S = 86_400.0
SICK = Setup()


def test_a_long_log_adds_up_to_what_the_formula_expects():
    days = 4000.0
    log = log_of(SICK, days=days, seed=3)
    expected = expected_goodput(SICK.job, SICK.interval_s)
    assert len(log.failures) == pytest.approx(days * DAY_S / SICK.job.mean_time_between_s, rel=0.05)
    assert log.num_checkpoints * SICK.interval_s / (days * DAY_S) == pytest.approx(expected.useful, rel=0.01)
    again = sum(failure.redone_s for failure in log.failures) / (days * DAY_S)
    assert again == pytest.approx(expected.redone, rel=0.1)


def test_a_log_tells_no_more_than_the_days_and_is_the_same_each_time():
    log = log_of(SICK, days=7)
    assert log == log_of(SICK, days=7)
    assert log != log_of(SICK, days=7, seed=1)
    assert all(0 < failure.at_s < 7 * DAY_S for failure in log.failures)
    assert sorted(log.failures, key=lambda failure: failure.at_s) == list(log.failures)
    cycle_s = SICK.interval_s + SICK.write_s
    assert all(0 <= failure.redone_s <= cycle_s for failure in log.failures)
    assert str(log).count("\n") == len(log.failures)


def test_a_failure_during_a_restart_throws_no_work_away():
    """Restarts that take far longer than the time between failures: nothing is ever begun."""
    log = log_of(replace(SICK, start_s=100 * SICK.job.mean_time_between_s), days=30, seed=5)
    first, *others = log.failures
    assert first.redone_s > 0
    assert others
    assert all(failure.redone_s == 0 for failure in others)


def test_lines_of_a_log():
    failure = JobFailure(at_s=DAY_S + 3 * 3600 + 65, redone_s=127.9, notice_s=600, start_s=61)
    assert str(failure) == (
        "day  2 03:01  a rank is gone; noticed after 10:00, training again 1:01 later; thrown away: 2:07"
    )
    log = JobLog(SICK, 7.0, (failure,), 1234)
    assert str(log).endswith("1,234 checkpoints in 7 days; training stood still for 0:50 at each")


def test_one_setting_changes_and_the_rest_stays():
    assert changed(SICK, notice_s=30) == replace(SICK, notice_s=30.0)
    assert changed(SICK, interval_s=2000) == replace(SICK, interval_s=2000.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "0 settings are changed, none; change one of interval_s"),
        ({"notice_s": 30, "start_s": 120}, "2 settings are changed, notice_s, start_s"),
        ({"write_s": 10}, "The least that can be had is 25"),
        ({"interval_s": float("inf")}, "interval_s is inf"),
        ({"interval_s": "soon"}, "interval_s"),
        ({"interval": 2000}, "interval_s"),
    ],
)
def test_a_change_that_cannot_be_had_gets_a_sentence(change, said):
    with pytest.raises((ValueError, TypeError), match=said):
        changed(SICK, **change)


def test_the_best_interval_gains_all_that_one_change_can_gain():
    best = changed(SICK, interval_s=best_interval_s(SICK.write_s, SICK.job.mean_time_between_s))
    before, after, score = gained(SICK, best)
    assert before == pytest.approx(expected_goodput(SICK.job, SICK.interval_s).useful, abs=0.005)
    assert after == pytest.approx(expected_goodput(best.job, best.interval_s).useful, abs=0.005)
    assert score == pytest.approx(1)


def test_other_changes_gain_less_and_a_wrong_one_loses():
    scores = {
        name: gained(SICK, changed(SICK, **{name: least}))[2]
        for name, least in SETTINGS.items()
        if name != "interval_s"
    }
    assert all(0 < score < 0.6 for score in scores.values()), scores
    assert max(scores, key=lambda name: scores[name]) == "write_s"
    assert gained(SICK, changed(SICK, interval_s=60))[2] < 0
    assert gained(SICK, SICK)[2] == 0


@pytest.mark.parametrize("bad", [{"num_gpus": 0}, {"write_s": 0.0}, {"interval_s": -1.0}])
def test_a_setup_that_cannot_be_gets_a_sentence(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Setup(**bad)
