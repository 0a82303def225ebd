"""Failures, checkpoints and goodput: published numbers, formulas by hand, and a simulation beside them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import astuple, replace

import numpy as np
import pytest

from course_lib.cost import (
    FAILURE_RATES,
    FailingJob,
    FailureRate,
    best_interval_s,
    chance_of_no_failure,
    daly_interval_s,
    expected_goodput,
    failure_rate,
    failures_per_day,
    first_order_goodput,
    mean_time_between_failures_s,
    simulate_goodput,
    young_interval_s,
)
from course_lib.cost.reliability.goodput_runs import follow

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
HOURLY = FailingJob(mean_time_between_s=HOUR_S, write_s=60.0)

# --- rates ----------------------------------------------------------------------------------------------------------


def test_llama_3_was_interrupted_every_three_hours():
    """419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783)."""
    rate = failure_rate("Llama 3 405B")
    assert rate.per_day == pytest.approx(419 / 54)
    assert rate.mean_time_between_s() == pytest.approx(54 * 24 * HOUR_S / 419)
    assert rate.per_gpu_day * 16_384 * 54 == pytest.approx(419)
    assert 3.0 * HOUR_S < rate.mean_time_between_s(16_384) < 3.1 * HOUR_S
    assert 1 / rate.per_gpu_day > 5.5 * 365  # one GPU, years


def test_the_rate_of_rsc_1_gives_what_its_authors_project():
    """1.8 hours at 16,384 GPUs and 0.23 at 131,072 (arXiv 2410.21680)."""
    rate = failure_rate("RSC-1")
    assert rate.mean_time_between_s(16_384) == pytest.approx(1.8 * HOUR_S, rel=0.01)
    assert rate.mean_time_between_s(131_072) == pytest.approx(0.23 * HOUR_S, rel=0.03)
    assert failure_rate("RSC-2").per_gpu_day == pytest.approx(0.00234 / 8)
    assert all(each.source for each in FAILURE_RATES.values())


def test_rates_add_up():
    assert failures_per_day(0.001, 3000) == pytest.approx(3.0)
    assert failures_per_day(0.0, 3000) == 0
    assert mean_time_between_failures_s(0.001, 3000) == pytest.approx(8 * HOUR_S)
    one, both = (chance_of_no_failure(0.001, num_gpus, 5 * HOUR_S) for num_gpus in (512, 1024))
    assert both == pytest.approx(one**2)
    assert chance_of_no_failure(0.001, 3000, 8 * HOUR_S) == pytest.approx(math.exp(-1))
    assert chance_of_no_failure(0.001, 3000, 0.0) == 1


# --- the best interval ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean_hours", "minutes", "digits"),
    [(24, 117, 0), (6, 57, 0), (0.25, 9.1, 1)],
    ids=["a day", "six hours", "15 minutes"],
)
def test_dalys_intervals_are_those_of_his_figures(mean_hours, minutes, digits):
    """Figures 3 to 5 of his paper, with 5 minutes to write."""
    found_s = daly_interval_s(5 * MINUTE_S, mean_hours * HOUR_S)
    assert round(found_s / MINUTE_S, digits) == minutes


def test_youngs_interval_is_the_least_of_two_losses():
    write_s, mean_s = 5 * MINUTE_S, 24 * HOUR_S
    assert young_interval_s(write_s, mean_s) == pytest.approx(2 * HOUR_S)
    tried = np.linspace(100, 20_000, 19_901)
    assert tried[np.argmin(write_s / tried + tried / (2 * mean_s))] == pytest.approx(2 * HOUR_S)


@pytest.mark.parametrize("write", [1e-12, 0.99e-8, 1.01e-8, 1e-4, 0.01, 0.3, 1.0, 5.0, 40.0])
def test_the_exact_interval_is_the_best_of_the_exact_goodput(write):
    job = FailingJob(mean_time_between_s=HOUR_S, write_s=write * HOUR_S)
    best_s = job.best_interval_s
    t = best_s / HOUR_S
    assert t + math.expm1(-(t + write)) == pytest.approx(0, abs=1e-6 * t)
    if write > 1e-10:  # below, a float cannot tell
        best = expected_goodput(job, best_s).useful
        assert best > max(expected_goodput(job, factor * best_s).useful for factor in (0.95, 1.05))
    if write <= 0.3:
        assert daly_interval_s(job.write_s, HOUR_S) == pytest.approx(best_s, rel=0.01)
    if write <= 1e-4:
        assert young_interval_s(job.write_s, HOUR_S) == pytest.approx(best_s, rel=0.01)


def test_approximations_end_where_a_write_is_as_long_as_a_run():
    exact_s = best_interval_s(HOUR_S, HOUR_S)
    assert young_interval_s(HOUR_S, HOUR_S) > 1.6 * exact_s
    assert daly_interval_s(HOUR_S, HOUR_S) == pytest.approx(exact_s, rel=0.08)
    assert daly_interval_s(2 * HOUR_S, HOUR_S) == daly_interval_s(3 * HOUR_S, HOUR_S) == HOUR_S
    assert best_interval_s(100 * HOUR_S, HOUR_S) == pytest.approx(HOUR_S)
    assert young_interval_s(0.0, 1.0) == daly_interval_s(0.0, 1.0) == best_interval_s(0.0, 1.0) == 0


# --- goodput by formula ---------------------------------------------------------------------------------------------


def test_goodput_by_hand():
    no_cost = replace(HOURLY, write_s=1e-9)
    assert expected_goodput(no_cost, HOUR_S).useful == pytest.approx(1 / (math.e - 1))
    with_restart = replace(no_cost, restart_s=HOUR_S)
    assert expected_goodput(with_restart, HOUR_S).useful == pytest.approx(1 / (math.e - 1) / math.e)
    assert expected_goodput(with_restart, HOUR_S).restarting == pytest.approx(1 - 1 / math.e)
    never = replace(HOURLY, mean_time_between_s=1e15)
    assert expected_goodput(never, 540.0).useful == pytest.approx(0.9)
    assert expected_goodput(never, 540.0).writing == pytest.approx(0.1)
    assert expected_goodput(HOURLY, 1e9).useful == 0  # never gets that far


def test_what_is_written_beside_training_costs_only_what_a_failure_loses_more():
    job = replace(HOURLY, write_s=300.0, restart_s=120.0)
    hidden = replace(job, exposed_share=0.1)
    quick = replace(job, write_s=30.0)  # a write as long as what is exposed
    assert hidden.exposed_s == pytest.approx(30.0)
    assert hidden.hidden_s == pytest.approx(270.0)
    assert hidden.best_interval_s == pytest.approx(quick.best_interval_s)
    at_best = [expected_goodput(each, each.best_interval_s).useful for each in (job, hidden, quick)]
    assert at_best[0] < at_best[1] < at_best[2]
    assert at_best[1] == pytest.approx(at_best[2] * math.exp(-270 / HOUR_S))
    assert first_order_goodput(quick, 900.0) - first_order_goodput(hidden, 900.0) == pytest.approx(270 / HOUR_S)
    all_hidden = replace(job, exposed_share=0.0)
    assert all_hidden.best_interval_s == 300.0  # the next write begins when this one is over


def test_spare_nodes_save_the_wait_for_a_repair():
    job = replace(HOURLY, repair_s=2 * HOUR_S)
    load = 2.0
    waits = [replace(job, num_spares=spares).waiting_share for spares in (0, 1, 2, 20)]
    assert waits[0] == pytest.approx(load / (1 + load))
    assert waits[1] == pytest.approx(load**2 / 2 / (1 + load + load**2 / 2))
    assert waits[2] == pytest.approx(load**3 / 6 / (1 + load + load**2 / 2 + load**3 / 6))
    assert 0 < waits[3] < 1e-9
    without, one = (expected_goodput(replace(job, num_spares=spares), 600.0) for spares in (0, 1))
    ready = expected_goodput(HOURLY, 600.0)
    assert ready.waiting == 0
    assert without.useful == pytest.approx(ready.useful / 3)
    assert one.useful == pytest.approx(ready.useful * (1 - waits[1]))
    assert first_order_goodput(job, 600.0) == pytest.approx(first_order_goodput(HOURLY, 600.0) / 3)


JOBS = {
    "plain": (HOURLY, 600.0),
    "restart": (replace(HOURLY, restart_s=300.0), 600.0),
    "asynchronous": (replace(HOURLY, write_s=500.0, restart_s=200.0, exposed_share=0.1), 700.0),
    "write as long as the interval": (replace(HOURLY, write_s=600.0, exposed_share=0.0), 600.0),
    "no spares": (replace(HOURLY, restart_s=100.0, repair_s=1800.0), 900.0),
    "one spare": (replace(HOURLY, restart_s=100.0, repair_s=3 * HOUR_S, num_spares=1), 900.0),
    "four spares": (replace(HOURLY, exposed_share=0.5, repair_s=4 * HOUR_S, num_spares=4), 300.0),
    "interval of the time between failures": (replace(HOURLY, restart_s=600.0), HOUR_S),
    "interval of three times that": (HOURLY, 3 * HOUR_S),
}


@pytest.mark.parametrize("name", JOBS)
def test_shares_make_up_the_whole(name):
    shares = astuple(expected_goodput(*JOBS[name]))
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0


def test_the_first_order_is_right_where_everything_is_short():
    for part in (0.001, 0.01):
        job = FailingJob(mean_time_between_s=1.0, write_s=part**2, restart_s=part, exposed_share=0.5)
        assert abs(first_order_goodput(job, part) - expected_goodput(job, part).useful) < 2 * part**2


# --- goodput by simulation ------------------------------------------------------------------------------------------


def exponential_gaps(mean_s: float, num_runs: int) -> Iterator[np.ndarray]:
    draw = np.random.default_rng(12)
    while True:
        yield draw.exponential(mean_s, num_runs)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", JOBS)
def test_simulated_shares_are_those_of_the_formula(name):
    """Each within four and a half of its own standard errors; runs so long that their ends do not count."""
    job, interval_s = JOBS[name]
    gaps = exponential_gaps(HOUR_S, 40)
    shares, num_failures = follow(job, interval_s, 2000 * HOUR_S, gaps, 40)
    assert shares.sum(axis=0) == pytest.approx(np.ones(40))
    assert num_failures.mean() > 600
    errors = shares.std(axis=1, ddof=1) / math.sqrt(40)
    for found, error, expected in zip(
        shares.mean(axis=1), errors, astuple(expected_goodput(job, interval_s)), strict=True
    ):
        assert abs(found - expected) <= 4.5 * error + 1e-9
        assert error < 0.01


def test_the_simulation_shows_where_the_first_order_ends():
    near, far = 180.0, 3 * HOUR_S
    job = replace(HOURLY, write_s=5.0)
    for interval_s, is_near in ((near, True), (far, False)):
        runs = simulate_goodput(job, interval_s, duration_s=2000 * HOUR_S, num_runs=40)
        off = abs(runs.mean.useful - first_order_goodput(job, interval_s))
        assert (off < 0.003) == is_near
        assert (off < 20 * runs.standard_error) == is_near
        assert abs(runs.mean.useful - expected_goodput(job, interval_s).useful) < 4.5 * runs.standard_error
    assert first_order_goodput(job, far) < 0 < expected_goodput(job, far).useful


def test_failures_in_bunches_leave_the_formula():
    """Equal mean times: bunches spoil less work than the formula fears, failures by wear more."""
    job, interval_s = replace(HOURLY, restart_s=60.0), 1800.0
    by_shape = {
        shape: simulate_goodput(job, interval_s, duration_s=2000 * HOUR_S, num_runs=40, weibull_shape=shape, seed=3)
        for shape in (0.6, 1.0, 3.0)
    }
    exact = expected_goodput(job, interval_s).useful
    off = {shape: (runs.mean.useful - exact) / runs.standard_error for shape, runs in by_shape.items()}
    assert off[0.6] > 10
    assert abs(off[1.0]) < 4.5
    assert off[3.0] < -10
    for runs in by_shape.values():
        assert np.mean(runs.failures_by_run) == pytest.approx(2000, rel=0.03)


def test_runs_of_54_days_fail_as_often_as_llama_3():
    rate = failure_rate("Llama 3 405B")
    job = FailingJob(mean_time_between_s=rate.mean_time_between_s(), write_s=60.0, restart_s=600.0)
    runs = simulate_goodput(job, job.best_interval_s, duration_s=54 * DAY_S, num_runs=100, seed=1)
    assert np.mean(runs.failures_by_run) == pytest.approx(419, abs=4 * math.sqrt(419 / 100))
    assert np.std(runs.failures_by_run) == pytest.approx(math.sqrt(419), rel=0.25)
    assert runs.mean.useful == pytest.approx(np.mean(runs.useful_by_run))
    assert runs.standard_error == pytest.approx(np.std(runs.useful_by_run, ddof=1) / 10)
    assert len(runs.useful_by_run) == 100


def test_a_seed_gives_the_same_runs():
    def useful(seed: int) -> tuple[float, ...]:
        return simulate_goodput(HOURLY, 600.0, duration_s=DAY_S, num_runs=4, seed=seed).useful_by_run

    assert useful(5) == useful(5)
    assert useful(5) != useful(6)
    assert len(set(useful(5))) == 4
    assert math.isnan(simulate_goodput(HOURLY, 600.0, duration_s=DAY_S, num_runs=1).standard_error)


class StepByStep:
    """The same job second by second of what it does, as somebody would note it beside the machine."""

    def __init__(self, job: FailingJob, interval_s: float, duration_s: float) -> None:
        self.job, self.interval_s, self.duration_s = job, interval_s, duration_s
        self.now_s = 0.0
        self.spent = dict.fromkeys(("useful", "writing", "redone", "restarting", "waiting"), 0.0)
        self.not_safe: list[tuple[str, float]] = []
        self.under_repair: list[float] = []  # until when

    def spend(self, what: str, seconds: float, until_s: float) -> bool:
        """Do this, at most until then; whether it was done to the end."""
        end_s = min(self.now_s + seconds, until_s, self.duration_s)
        self.not_safe.append((what, max(end_s - self.now_s, 0.0)))
        done = self.now_s + seconds <= min(until_s, self.duration_s)
        self.now_s = max(end_s, self.now_s)
        return done

    def keep(self, how_many: int, names: dict[str, str]) -> None:
        for what, seconds in self.not_safe[:how_many]:
            self.spent[names.get(what, what)] += seconds
        del self.not_safe[:how_many]

    def until_failure(self, fails_s: float, is_first: bool) -> None:
        writes: list[tuple[float, int]] = []  # when each is complete, and how much is safe then
        if self.spend("restarting", 0.0 if is_first else self.job.restart_s, fails_s):
            while self.spend("useful", self.interval_s, fails_s):
                if not self.spend("writing", self.job.exposed_s, fails_s):
                    break
                writes.append((self.now_s + self.job.hidden_s, len(self.not_safe)))
        if fails_s >= self.duration_s:
            self.keep(len(self.not_safe), {})
            return
        self.keep(max((count for end_s, count in writes if end_s <= fails_s), default=0), {})
        self.keep(len(self.not_safe), {"useful": "redone", "writing": "redone"})

    def repair(self) -> None:
        self.under_repair = [end_s for end_s in self.under_repair if end_s > self.now_s]
        self.under_repair.append(self.now_s + self.job.repair_s)
        if len(self.under_repair) > self.job.num_spares:
            self.spend("waiting", min(self.under_repair) - self.now_s, math.inf)
            self.keep(1, {})

    def run(self, gaps_s: list[float]) -> list[float]:
        for number, gap_s in enumerate(gaps_s):
            self.until_failure(self.now_s + gap_s, number == 0)
            if self.now_s < self.duration_s:
                self.repair()
            if self.now_s >= self.duration_s:
                break
        return [seconds / self.duration_s for seconds in self.spent.values()]


def test_each_run_is_what_a_step_by_step_account_says():
    draw = random.Random(7)
    for _ in range(150):
        write_s, share = draw.uniform(1, 20), draw.choice([0.0, 0.3, 1.0])
        job = FailingJob(
            mean_time_between_s=100.0,
            write_s=write_s,
            restart_s=draw.choice([0.0, 15.0, 90.0]),
            exposed_share=share,
            repair_s=draw.choice([0.0, 50.0, 400.0]),
            num_spares=draw.choice([0, 1, 3]),
        )
        interval_s = max(draw.uniform(5, 150), job.hidden_s)
        duration_s = draw.uniform(10, 1500)
        gaps_s = [draw.expovariate(1 / 100) for _ in range(200)]
        by_step = StepByStep(job, interval_s, duration_s).run(gaps_s)
        shares, _ = follow(job, interval_s, duration_s, (np.array([gap_s]) for gap_s in gaps_s), 1)
        assert shares[:, 0].tolist() == pytest.approx(by_step, abs=1e-9), (job, interval_s, duration_s)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: failure_rate("Llama 3"), "failure rate is 'Llama 3'.*Did you mean 'Llama 3 405B'"),
        (lambda: failures_per_day(-1.0, 2), "rate_per_gpu_day is -1.0; it must be zero or more"),
        (lambda: failures_per_day(1.0, 0), "num_gpus=0 does not work.*is 1"),
        (lambda: mean_time_between_failures_s(0.0, 2), "rate_per_gpu_day is 0.0; .*finite number above zero"),
        (lambda: chance_of_no_failure(1.0, 2, -1.0), "time_s is -1.0"),
        (lambda: FailureRate(name="x", num_failures=0, num_gpus=1, days=1), "num_failures is 0"),
        (lambda: FailureRate(name="x", num_failures=1, num_gpus=1, days=math.inf), "days is inf; .*finite"),
        (lambda: FailureRate(name="x", num_failures=1, num_gpus=0, days=1), "num_gpus=0"),
        (lambda: young_interval_s(-1.0, 1.0), "write_s is -1.0; it must be zero or more"),
        (lambda: daly_interval_s(1.0, 0.0), "mean_time_between_s is 0.0"),
        (lambda: best_interval_s(1.0, math.inf), "mean_time_between_s is inf; it must be a finite number"),
        (lambda: replace(HOURLY, write_s=0.0), "write_s is 0.0; it must be a finite number above zero"),
        (lambda: replace(HOURLY, exposed_share=1.5), "exposed_share is 1.5; .*The nearest is 1"),
        (lambda: replace(HOURLY, restart_s=-2.0), "restart_s is -2.0"),
        (lambda: replace(HOURLY, num_spares=-1), "num_spares=-1 does not work.*is 0"),
        (lambda: replace(HOURLY, num_spares=200_000), "num_spares is at most 100,000"),
        (lambda: expected_goodput(HOURLY, 0.0), "interval_s is 0.0; it must be a number above zero"),
        (lambda: first_order_goodput(HOURLY, math.inf), "interval_s is inf; .*a finite interval, 617.* for example"),
        (lambda: expected_goodput(replace(HOURLY, write_s=1e308), 1e308), "never comes saves nothing"),
        (
            lambda: expected_goodput(replace(HOURLY, exposed_share=0.5), 29.0),
            "interval_s is 29.0; training writes a checkpoint in the background for 30 s.*nearest that works is 30",
        ),
        (lambda: simulate_goodput(HOURLY, 0.0, duration_s=9.0), "interval_s is 0.0"),
        (lambda: simulate_goodput(HOURLY, 9.0, duration_s=0.0), "duration_s is 0.0"),
        (
            lambda: simulate_goodput(HOURLY, 9.0, duration_s=1e9),
            "fails about 2.78e.05 times; .* at most 20,000 failures. The nearest that works is 7.2e.07",
        ),
        (lambda: simulate_goodput(HOURLY, 9.0, duration_s=9.0, num_runs=0), "num_runs=0"),
        (lambda: simulate_goodput(HOURLY, 9.0, duration_s=9.0, seed=-1), "seed=-1"),
        (lambda: simulate_goodput(HOURLY, 9.0, duration_s=9.0, weibull_shape=0.1), "nearest that works is 0.3"),
    ],
)
def test_bad_input_is_told_with_the_rule(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
