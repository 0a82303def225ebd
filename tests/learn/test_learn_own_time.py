"""A learner's time is their own: computing and waiting count, a crowded machine and first imports do not."""

from __future__ import annotations

import sys
import textwrap
import time

import pytest

from course_lib.learn.sandbox import cpu_time_limit, sandbox
from course_lib.learn.sandbox.cpu_time_limit import OwnTime
from course_lib.learn.sandbox.sandbox import TimeIsUp, time_limit


class Clock:
    """Stands in for the system's clocks; ``pass_`` lets time go by in the three ways that there are."""

    def __init__(self, monkeypatch):
        self.computed_s = self.now_s = self.in_line_s = 100.0
        monkeypatch.setattr(cpu_time_limit.time, "thread_time", lambda: self.computed_s)
        monkeypatch.setattr(cpu_time_limit.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(cpu_time_limit, "_in_line_s", lambda: self.in_line_s)

    def pass_(self, *, computing: float = 0.0, asleep: float = 0.0, in_line: float = 0.0) -> None:
        self.computed_s += computing
        self.in_line_s += in_line
        self.now_s += computing + asleep + in_line


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_computing_counts(clock):
    mine = OwnTime(20)
    clock.pass_(computing=19.9)
    assert not mine.is_up()
    clock.pass_(computing=0.2)
    assert mine.is_up()


def test_waiting_counts(clock):
    mine = OwnTime(20)
    clock.pass_(asleep=19.9)
    assert not mine.is_up()
    clock.pass_(asleep=0.2, computing=0.1)
    assert mine.is_up()


def test_standing_in_line_for_a_core_does_not_count(clock):
    mine = OwnTime(20)
    clock.pass_(computing=15, in_line=500)
    assert not mine.is_up()
    clock.pass_(computing=5.1)
    assert mine.is_up()


def test_a_bit_of_both_has_an_end_too(clock):
    mine = OwnTime(20)
    clock.pass_(computing=10, asleep=40)
    assert not mine.is_up()
    clock.pass_(asleep=11)
    assert mine.is_up()


def test_an_import_does_not_count_and_is_never_cut(clock):
    mine = OwnTime(20)
    clock.pass_(computing=5)
    assert not mine.is_up()
    clock.pass_(computing=100, asleep=100)
    assert not mine.is_up(importing=True)
    clock.pass_(computing=14)
    assert not mine.is_up()
    clock.pass_(computing=1.1)
    assert mine.is_up()


def test_a_first_import_is_let_through_for_real(tmp_path, monkeypatch):
    """A module that takes longer than the limit to import, and a function that does little with it."""
    (tmp_path / "a_large_module.py").write_text(
        textwrap.dedent("""
            import time
            until_s = time.thread_time() + 1.0
            while time.thread_time() < until_s:
                pass
            answer = 42
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with time_limit(0.4):
        import a_large_module
    assert a_large_module.answer == 42
    del sys.modules["a_large_module"]


@pytest.mark.parametrize("doing", [lambda: None, lambda: time.sleep(0.001)])
def test_what_never_ends_is_ended(doing):
    @time_limit(0.3)
    def for_ever():
        while True:
            doing()

    with pytest.raises(TimeIsUp):
        for_ever()


def test_who_swallows_the_first_one_meets_the_next(monkeypatch):
    monkeypatch.setattr(sandbox, "_AGAIN_S", 0.05)
    swallowed = []

    @time_limit(0.2)
    def stubborn():
        while True:
            try:
                while True:
                    pass
            except TimeIsUp:
                if len(swallowed) == 3:
                    raise
                swallowed.append(True)

    with pytest.raises(TimeIsUp):
        stubborn()
    assert len(swallowed) == 3
