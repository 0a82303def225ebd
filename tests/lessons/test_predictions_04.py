"""What lesson 04's reveals tell: the right answer from a run, a sentence for each miss, and runs far from the model."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn import exercises

ELSEWHERE = ("04.trace_", "04.token_")  # tests/lessons/test_predictions_04e.py and test_predictions_04f.py
ASKED = {asked.name: asked for asked in exercises.predictions_of("04") if not asked.name.startswith(ELSEWHERE)}
GRADIENTS = 367 * 1024


def all_reduce_s(size_bytes: float, latency_s: float, rate: float, n: int = 2) -> float:
    """A ring by hand: 2 (n - 1) messages of an n-th each."""
    return 2 * (n - 1) * (latency_s + size_bytes / n / rate)


WEIGHT, BIAS = 4 * 256 * 256, 4 * 256
SIXTEEN_S = 8 * (all_reduce_s(WEIGHT, 5e-3, 100e6) + all_reduce_s(BIAS, 5e-3, 100e6))
ONE_S = all_reduce_s(8 * (WEIGHT + BIAS), 5e-3, 100e6)


def strong_s(n: int, latency_s: float, rate: float) -> float:
    """A step of the paced model, 32 ms and 64 ms on one rank: the first bucket of four layers leaves half-way."""
    sent_s = all_reduce_s(4 * (WEIGHT + BIAS), latency_s, rate, n)
    first_done_s = (0.032 + 0.032) / n + sent_s
    return max(first_done_s, 0.096 / n) + sent_s


DIAL = [160e6, 80e6, 50e6, 30e6, 20e6]
TWO_S = [strong_s(2, 1e-3, rate) for rate in DIAL]
BREAK_EVEN = max(rate for rate in range(1, 200) if strong_s(2, 1e-3, rate * 1e6) > 0.096)
IN_MS = ", ".join(f"{1e3 * time_s:.0f}" for time_s in TWO_S)
SPEEDUPS = [1.0, *(0.096 / strong_s(n, 1e-3, 200e6) for n in (2, 4))]

RUNS = [  # name, what ran, what is measured, what the model says
    ("04.apart", (0.4,), "four different models", None),
    ("04.weights", (8, 8), 1, None),
    ("04.bytes", (1.5 * GRADIENTS, GRADIENTS), 550.5, 550.5),
    ("04.calls", ({"16 calls": 0.18, "1 call": 0.03},), 6, round(SIXTEEN_S / ONE_S, 1)),
    ("04.order", (["head", "blocks", "stem"], ["stem", "blocks", "head"]), "the last layer's", None),
    ("04.buckets", ([5, 4, 1, 2, 3.0], [5, 4, 1, 2, 3.0]), "4 buckets", "4 buckets"),
    ("04.pieces", (4 * 367.0, GRADIENTS), 1468, 1468),
    ("04.reads", ([[4, 3, 6], [1, 9, 2], [7, 0, 4], [5, 8, 1]],), "12", None),
    ("04.rate", (0.95, 0.9), "clearly worse", None),
    ("04.norm", ("a weight is off by 1e-01", True), "others, and equal on all ranks", None),
    ("04.speedup", (SPEEDUPS,), *[pytest.approx(SPEEDUPS[-1], abs=0.005)] * 2),
    ("04.break_even", (0.096, DIAL, TWO_S), BREAK_EVEN, BREAK_EVEN),
    ("04.flag", (0, 8, 8), "it is read before it is set", None),
    ("04.unused", ("in the forward pass of step 1",), "in the forward pass of step 1", None),
    ("04.crash", (None,), "nothing that can be loaded", None),
    ("04.script", ([4, 1, 7, 5], [7, 5]), "training.sampler.begin(epoch, num_done=...)", None),
]
APART = [  # name, what ran, and what is said of it
    ("04.bytes", (3.0 * GRADIENTS, GRADIENTS), "counted bytes"),
    ("04.calls", ({"16 calls": 0.48, "1 call": 0.031},), "181 ms for 16 calls and 31 ms for one"),
    ("04.buckets", ([5, 4, 3, 2, 1.0], [5, 4, 1, 2, 3.0]), "took 200% longer than the fastest. Compare"),
    ("04.buckets", ([5, 4, 1.02, 2, 1.0], [5, 4, 1, 2, 3.0]), "only 2% longer"),
    ("04.pieces", (367.0, GRADIENTS), "counted bytes"),
    ("04.speedup", ([1, 1.6, 0.9],), f"two ranks the model says {SPEEDUPS[1]:.2f}, and your run 1.60"),
    ("04.break_even", (0.096, DIAL, [0.09, 0.1, 0.12, 0.15, 0.2]), f"two take {IN_MS} ms"),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, [(name, run) for name, run, _ in APART]
    guesses = (1, 1000)


@pytest.mark.parametrize(("name", "run", "words"), APART)
def test_what_is_said_of_a_run_far_from_the_model(name, run, words):
    assert words in ASKED[name].tell(*run).apart


@pytest.mark.parametrize(
    ("one_s", "two_s", "megabytes"),
    [
        # Two never win: the line is drawn on, to faster links.
        (0.1, [0.11, 0.12, 0.13, 0.14, 0.15], (160, 1e9)),
        (0.3, [0.06, 0.07, 0.08, 0.11, 0.15], (1, 20)),  # two always win: and to slower ones
        (0.1, [0.2, 0.2, 0.2, 0.2, 0.2], (80, 80)),  # no line to draw
    ],
)
def test_a_break_even_outside_the_dial(one_s, two_s, megabytes):
    low, high = megabytes
    assert low <= ASKED["04.break_even"].tell(one_s, DIAL, two_s).measured <= high


@pytest.mark.parametrize(
    ("together", "choice", "words"),
    [(0.9, "clearly worse", "go less far."), (0.951, "about the same", "+0.1 points"), (0.99, "clearly better", "+4")],
)
def test_what_is_told_of_the_rate_is_true_of_the_run(together, choice, words):
    shown = ASKED["04.rate"].tell(0.95, together)
    assert shown.measured == choice
    assert words in shown.because


def test_other_outcomes_are_told_as_they_are():
    assert ASKED["04.apart"].tell(0.0).measured == "four equal models"
    assert ASKED["04.norm"].tell("no weight off by more than 1e-10", True).measured == "those of one device"
    assert ASKED["04.norm"].tell("a weight is off by 1e-01", False).measured == "others, and another set on each rank"
    assert ASKED["04.order"].tell(["stem", "head"], ["stem", "head"]).measured == "the first layer's"
    assert ASKED["04.crash"].tell(100).measured == "step 100"
    assert ASKED["04.flag"].tell(0, 1, 8).measured == "once it is False, the hooks are gone"
    assert ASKED["04.unused"].tell("nowhere").measured == "nowhere"
    assert ASKED["04.script"].tell([4, 1, 7, 5], [4, 1, 7, 5]).measured != "training.sampler.begin(epoch, num_done=...)"
