"""What part b of lesson 05 tells after a run: right beside plausible runs, and frank where the model is not met."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib import cost
from course_lib.learn.exercises.lesson_05.predictions.units import UNITS

ASKED = {asked.name: asked for asked in UNITS}
KIB = 1024
NUMEL = 128 * 128


def peak(num_ranks, of=1):
    units = [cost.UnitSizes(of * NUMEL, of * NUMEL // num_ranks)] * (8 // of)
    return max(moment.total for moment in cost.sharded_moments(units, num_ranks=num_ranks, prefetch=0))


DDP_BYTES = 4 * 8 * NUMEL * 4  # weights, gradients and two states, of 4 bytes
FEW, MANY = {"before": 8, "after": 8}, {"before": 8, "after": 16}
RUNS = [  # name, what ran, what is measured, what the model says
    ("05.peak", (737 * KIB, 8, 128), 737, round(peak(4) / KIB)),
    ("05.again", ({"input": True, "weight": False},), "that of the input", None),
    ("05.gathers", (12, 3, 28), 12, 12),
    ("05.batch", ({2: 2e6, 4: 2e6},), 1, 1),
    ("05.units", (1921 * KIB, 2117 * KIB, 8, 128), "nearly all of it", "nearly all of it"),
    ("05.ranks", ({4: 800 * KIB, 64: 304 * KIB},), 38, None),
    ("05.freed", (), "autograd keeps the whole weights", None),
    ("05.anew", (MANY, FEW), "an all-gather for each layer", None),
    ("05.anew", (FEW, FEW), "nothing", None),
    ("05.anew", (FEW, MANY), "a product for each layer", None),
    ("05.anew", (MANY, MANY), "both of them", None),
]
FAR = [
    ("05.peak", (1300 * KIB, 8, 128)),
    ("05.gathers", (8, 3, 28)),
    ("05.batch", ({2: 2e6, 4: 4e6},)),
    ("05.units", (600 * KIB, 2117 * KIB, 8, 128)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (580, 1100, 1.5, 6)
    one_sided = ("05.anew",)


def test_the_terms_of_the_peak_add_up_to_what_the_model_says():
    numbers = [int(word) for word in ASKED["05.peak"].tell(737 * KIB, 8, 128).because.split() if word.isdigit()]
    assert sum(numbers) == round(peak(4) / KIB)


@pytest.mark.parametrize(("one_unit", "share"), [(0.27, "a quarter"), (0.5, "half"), (0.95, "nearly all")])
def test_a_peak_is_named_by_its_share_of_ddps(one_unit, share):
    assert share in ASKED["05.units"].tell(one_unit * DDP_BYTES, DDP_BYTES, 8, 128).measured


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [((True, True), "both"), ((False, False), "neither"), ((False, True), "that of the weight")],
)
def test_other_gradients_that_notice_are_told_as_well(spoilt, told):
    assert ASKED["05.again"].tell(dict(zip(("input", "weight"), spoilt, strict=True))).measured == told
