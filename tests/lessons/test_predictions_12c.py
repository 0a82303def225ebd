"""What part c of lesson 12 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from course_lib import cost
from course_lib.cost import FailingJob, Goodput, SimulatedGoodput, expected_goodput, simulate_goodput
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_12.predictions.bought import BUYS, SUSPECTS
from course_lib.learn.exercises.lesson_12.predictions.thousands import THOUSANDS
from course_lib.learn.sick.sick_job import Setup, log_of

ASKED = {asked.name: asked for asked in THOUSANDS}
MONTH_S = 30 * 86_400
LLAMA = cost.failure_rate("Llama 3 405B")
JOB = FailingJob(mean_time_between_s=LLAMA.mean_time_between_s(), write_s=60, restart_s=300)
LARGEST = replace(JOB, mean_time_between_s=LLAMA.mean_time_between_s(100_000))
KEPT = FailingJob(mean_time_between_s=JOB.mean_time_between_s, write_s=30, restart_s=840)
BOUGHT = {
    "as it is": KEPT,
    BUYS[0]: replace(KEPT, restart_s=250),
    BUYS[1]: replace(KEPT, exposed_share=0.1),
    BUYS[2]: replace(KEPT, write_s=7.5),
    BUYS[3]: replace(KEPT, restart_s=660),
}


def simulated(job: FailingJob, interval_s: float) -> SimulatedGoodput:
    return simulate_goodput(job, interval_s, duration_s=MONTH_S, num_runs=50, seed=1)


def useful(share: float) -> SimulatedGoodput:
    """Runs of which this much is useful, and half of the rest is writing."""
    rest = (1 - share) / 2
    return SimulatedGoodput(Goodput(share, rest, rest, 0.0, 0.0), 0.001, (share,), (1,))


FOUND = {minutes: simulated(JOB, 60 * minutes) for minutes in (1, 4, 8, 18, 32, 64, 256)}
AROUND = {times: simulated(JOB, times * JOB.best_interval_s) for times in (0.1, 0.5, 1, 2, 10)}
RUNS = {name: simulated(job, job.best_interval_s) for name, job in BOUGHT.items()}
WAITING = [replace(KEPT, repair_s=86_400, num_spares=spares).waiting_share for spares in range(20)]
LOG = log_of(Setup(), days=7)
POINTS = cost.all_reduce_at_scale(10**9, cost.machine_spec("8x H100"), ways=("ring",))
DRAW = np.random.default_rng(0)
WAITS = {ranks: DRAW.exponential(10, (50, ranks)).max(axis=1).mean().item() for ranks in (8, 512, 16_384)}
BEST_OF_LARGEST_S = LARGEST.best_interval_s

ROWS = [
    ("12.years", (LLAMA,), 5.8),
    ("12.best", (FOUND, JOB), 18),
    ("12.twice", (AROUND, JOB), 23),
    ("12.buy", (RUNS,), BUYS[0]),
    ("12.dear", (LOG,), SUSPECTS[4]),
    ("12.jitter", (WAITS, 10), 103),
]
USUAL = {name: (runs, measured) for name, runs, measured in ROWS}
TRIED = (0, 0.0003, 0.01, 0.5, 1, 3, 5, 8, 10, 16, 24, 30, 40, 60, 90, 100, 120, 500, 9000, 100_000)
FAR = [
    ("12.best", ({1: useful(0.9), 18: useful(0.5)}, JOB)),
    ("12.twice", ({**AROUND, 2: useful(0.5)}, JOB)),
    ("12.jitter", ({8: 27.0, 16_384: 20.0}, 10)),
]


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_prediction_is_tried():
    assert list(USUAL) == list(ASKED)


@pytest.mark.parametrize(("name", "runs", "measured"), ROWS)
def test_a_run_is_told_as_it_was(name, runs, measured):
    told = ASKED[name].tell(*runs)
    if isinstance(measured, str):
        assert told.measured == measured
    else:
        assert told.measured == pytest.approx(measured, rel=0.06)
    assert told.because
    if told.model is not None:
        assert told.model == pytest.approx(measured, rel=0.1)
        assert not reveal(name, *runs).is_apart


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for key, sentence in ASKED[name].tell(*runs).misreadings.items():
        if callable(key):
            assert not key(right)
            wrong = next(n for n in TRIED if key(n) and ASKED[name].low <= n <= ASKED[name].high)
        else:
            wrong = key
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, *runs)
        assert not shown.is_right
        assert shown.misreading == sentence
        assert sentence in repr(shown)


@pytest.mark.parametrize(("name", "runs"), FAR)
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert f"are apart. {shown.apart}" in repr(shown)


SAID = [
    ("12.years", ["16,384 GPUs for 54 days are 2,422 years of one GPU"]),
    ("12.best", ["At 18 minutes 12%", "At 1 minute it is 52%", "At 256 it is 5"]),
    ("12.twice", ["The loss grows from 9.7% of the time to 12.0%", "A tenth of it costs 35%"]),
    ("12.buy", ["The goodput was 86.", "A failure is noticed after 10 seconds: +4.", "fast: +3."]),
    (
        "12.dear",
        [
            "2,972 times 50 seconds are 41 hours",
            "of 168 hours in all. All 9 failures together cost 2.5 hours",
            "0.3 hours",
        ],
    ),
    ("12.jitter", ["the slowest of 16,384", "rank is still late by 10 ms"]),
]


@pytest.mark.parametrize(("name", "said"), SAID)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name][0]).because
    assert all(part in because for part in said), because


def test_what_gains_most_follows_the_runs():
    told = ASKED["12.buy"].tell({**RUNS, BUYS[2]: useful(0.99)})
    assert told.measured == BUYS[2]
    assert told.because.index("Storage four times") < told.because.index("noticed after 10")
    assert "Silence" not in told.because
    assert BUYS[2] not in told.misreadings


def test_the_two_losses_are_not_useful_time():
    """A run whose restarts differ does not change what is told of writing and work done again."""
    slow = {times: replace(run, mean=replace(run.mean, restarting=0.5)) for times, run in AROUND.items()}
    assert ASKED["12.twice"].tell(slow, JOB).measured == ASKED["12.twice"].tell(AROUND, JOB).measured


def test_the_page_says_of_the_jobs_what_is_so():
    """The job as it is stays below 90 %, either of the first two purchases alone is above; Young throws away a good
    part where a write takes twice the time between failures, and hardly anything where it is short."""
    left = {name: expected_goodput(job, job.best_interval_s).useful for name, job in BOUGHT.items()}
    assert left["as it is"] < 0.9 < min(left[BUYS[0]], left[BUYS[1]])
    for mean_s, least, most in ((36_000, 0.999, 1), (30, 0, 0.75)):
        job = FailingJob(mean_time_between_s=mean_s, write_s=60)
        young = expected_goodput(job, cost.young_interval_s(60, mean_s)).useful
        assert least <= young / expected_goodput(job, job.best_interval_s).useful <= most


def test_the_page_says_of_all_reduces_what_is_so():
    """A flat ring is the quickest up to 128 ranks though all send the same bytes; small tensors are all latency."""
    machine, three = cost.machine_spec("8x H100"), ("ring", "hierarchical", "hierarchical, doubling")
    for ranks, quickest in ((32, "ring"), (128, "ring"), (256, three[2]), (16_384, three[2])):
        ways = cost.all_reduce_at_scale(10**9, machine, ranks=[ranks], ways=three)
        assert min(ways, key=lambda point: point.time_s).way == quickest
        sent = [point.within_bytes + point.between_bytes for point in ways]
        assert sent == pytest.approx([sent[0]] * 3, rel=0.01)
    (small,) = cost.all_reduce_at_scale(10**6, machine, ranks=[8], ways=["ring"])
    assert small.latency_share > 0.9


def test_bunches_matter_little_for_the_goodput_and_much_for_the_spares():
    """Weibull's shape of 0.7: a point of goodput more, and several times the waiting with 14 spares."""
    spared = replace(KEPT, repair_s=86_400, num_spares=14)
    means = [
        [
            simulate_goodput(
                job,
                KEPT.best_interval_s,
                duration_s=4 * MONTH_S,
                num_runs=100,
                seed=6,
                weibull_shape=shape,
            ).mean
            for job in (KEPT, spared)
        ]
        for shape in (1.0, 0.7)
    ]
    assert 0 < means[1][0].useful - means[0][0].useful < 0.02
    assert means[0][1].waiting < 0.01 < 0.02 < means[1][1].waiting


def test_the_clinic_tells_how_often_such_a_job_fails_on_average():
    told = ASKED["12.dear"].tell(LOG)
    assert "fail 14 times in 7 days on average; this job failed 9 times" in told.misreadings[SUSPECTS[0]]


def test_each_doubling_of_ranks_adds_the_mean_times_ln_2():
    harmonic = [sum(1 / number for number in range(1, ranks + 1)) for ranks in (8192, 16_384)]
    assert harmonic[1] - harmonic[0] == pytest.approx(math.log(2), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "guess", "said", "unsaid"),
    [
        ("12.jitter", 0, "less than one rank alone is late by, 10 ms", "one rank's own delay"),
        ("12.jitter", 10, "one rank's own delay", "less than one rank alone"),
        ("12.years", 0.0003, "That is the time of the whole job", "bad GPU"),
        ("12.years", 0.5, "bad GPU", "time of the whole job"),
    ],
)
def test_a_guess_is_told_its_own_misreading(name, guess, said, unsaid):
    ask(name).commit(guess)
    shown = repr(reveal(name, *USUAL[name][0]))
    assert said in shown
    assert unsaid not in shown
