"""The stopwatch on a clock that the tests move: medians, pairs, order, and the sentence on noise."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from itertools import cycle

import pytest

from course_lib.meter import Comparison, Measurement, compare, measure
from course_lib.meter.clocks import stopwatch as stopwatch_module
from course_lib.meter.clocks.stopwatch import median_interval


class Clock:
    """Stands in for the ``time`` module."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.log: list[str] = []

    def perf_counter(self) -> float:
        return self.now_s

    def job(self, name: str, times_s: Iterable[float]) -> Callable[[], None]:
        """A function whose calls take these times, over and over."""
        times = cycle(times_s)

        def run() -> None:
            self.log.append(name)
            self.now_s += next(times)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stand_in = Clock()
    monkeypatch.setattr(stopwatch_module, "time", stand_in)
    return stand_in


def test_the_median_of_the_rounds_without_the_warm_up(clock: Clock) -> None:
    result = measure(clock.job("a", [9.0, 9.0, 1.0, 5.0, 2.0]), rounds=3, warmup=2, name="a")
    assert result.times_s == (1.0, 5.0, 2.0)
    assert result.median_s == 2.0
    assert (result.low_s, result.high_s) == (1.0, 5.0)
    assert result.repeats == 1


def test_a_short_call_is_repeated_within_a_round(clock: Clock) -> None:
    result = measure(clock.job("a", [1e-5]), rounds=3)
    assert result.repeats == 200
    assert result.median_s == pytest.approx(1e-5)
    assert len(clock.log) == 2 + 3 * 200


def test_setup_runs_before_each_round_and_is_not_timed(clock: Clock) -> None:
    result = measure(clock.job("work", [1e-5]), setup=clock.job("setup", [1.0]), rounds=2, warmup=1)
    assert clock.log == ["setup", "work"] * 3
    assert result.median_s == pytest.approx(1e-5)
    assert result.repeats == 1


def test_the_slowest_rank_counts(clock: Clock) -> None:
    result = measure(clock.job("a", [1.0]), rounds=2, slowest=lambda time_s: max(time_s, 3.0))
    assert result.times_s == (3.0, 3.0)


def test_pairs_alternate_their_order(clock: Clock) -> None:
    compare(clock.job("a", [1.0]), clock.job("b", [2.0]), rounds=4, warmup=1)
    assert "".join(clock.log) == "ab" + "abbaabba"


def test_a_machine_that_slows_down_slows_both(clock: Clock) -> None:
    a = clock.job("a", [1.0] + [1.0 * 1.2**k for k in range(8)])
    b = clock.job("b", [2.0] + [2.0 * 1.2**k for k in range(8)])
    result = compare(a, b, names=("plain", "fancy"), rounds=8, warmup=1)
    assert result.first.noisy
    assert result.ratio == pytest.approx(2.0)
    assert not result.noisy
    assert result.verdict == "plain is 2.00 times as fast as fancy (2.00 to 2.00)."


def test_the_verdict_names_the_faster_one_whichever_it_is(clock: Clock) -> None:
    result = compare(clock.job("a", [4.0]), clock.job("b", [2.0]), names=("plain", "fancy"), rounds=6)
    assert result.ratio == 0.5
    assert result.verdict == "fancy is 2.00 times as fast as plain (2.00 to 2.00)."


def test_the_verdict_says_when_it_cannot_tell(clock: Clock) -> None:
    same = compare(clock.job("a", [1.0]), clock.job("b", [0.99, 1.01]), rounds=6)
    assert same.verdict == "No difference between the first and the second shows: ratio 0.99 to 1.01."
    wild = compare(clock.job("a", [1.0]), clock.job("b", [0.3, 3.0]), rounds=6)
    assert wild.noisy
    assert wild.verdict == "Too noisy to tell the first from the second: ratio 0.30 to 3.00."
    rough = compare(clock.job("a", [1.0]), clock.job("b", [1.5, 3.0]), rounds=6)
    assert rough.verdict.startswith("the first is 2.25 times as fast")
    assert rough.verdict.endswith("measure again for the size of it.")


@pytest.mark.parametrize(
    ("n", "expected"), [(1, (0, 0)), (5, (0, 4)), (6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (17, (4, 12))]
)
def test_interval_of_the_median_by_the_binomial_table(n: int, expected: tuple[int, int]) -> None:
    assert median_interval(range(n)) == expected


def test_spread_and_noise() -> None:
    assert not Measurement("", (1.0, 1.01, 0.99, 1.0)).noisy
    noisy = Measurement("x", (1.0, 2.0, 1.0, 2.0))
    assert noisy.spread == pytest.approx(1 / 1.5)
    assert str(noisy) == "x: 1.5 s (median of 4, 1 s to 2 s); the machine was noisy, measure again"
    assert str(Comparison(noisy, noisy)).count("\n") == 2


def test_the_collector_is_held_off_and_let_go_also_after_an_error() -> None:
    seen = []

    def failing() -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        measure(failing)
    assert seen == [False]
    assert gc.isenabled()


def test_real_time_is_measured() -> None:
    result = measure(lambda: sum(range(2000)), rounds=3)
    assert 0 < result.low_s <= result.median_s <= result.high_s


def test_errors_name_the_rule() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        measure(print, rounds=0)
    with pytest.raises(ValueError, match="at least 1"):
        compare(print, print, warmup=0)
    with pytest.raises(ValueError, match="give two"):
        compare(print, print, names=("one",))
