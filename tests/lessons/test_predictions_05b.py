"""What part b of lesson 05 tells after a run: right beside plausible runs, and frank where the model is not met."""

from __future__ import annotations

import pytest

from course_lib import cost
from course_lib.learn import ask, exercises, reveal
from course_lib.learn.exercises.lesson_05.predictions_units import UNITS

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
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of several runs the first
FAR = [
    ("05.peak", (1300 * KIB, 8, 128)),
    ("05.gathers", (8, 3, 28)),
    ("05.batch", ({2: 2e6, 4: 4e6},)),
    ("05.units", (600 * KIB, 2117 * KIB, 8, 128)),
]


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_prediction_is_tried_and_asked_in_the_lesson():
    assert list(dict.fromkeys(name for name, *_ in RUNS)) == list(ASKED)
    assert set(ASKED) <= {asked.name for asked in exercises.predictions_of("05")}


@pytest.mark.parametrize(("name", "runs", "measured", "model"), RUNS)
def test_a_run_is_told_as_it_was(name, runs, measured, model):
    told = ASKED[name].tell(*runs)
    assert told.measured == measured
    assert told.model == model
    if ASKED[name].choices is not None:
        assert told.measured in ASKED[name].choices


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for key in ASKED[name].tell(*runs).misreadings:
        if callable(key):
            assert not key(right)
            wrong = next(n for n in (580, 1100, 1.5, 6) if key(n))
        else:
            wrong = key
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, *runs)
        assert not shown.is_right
        assert shown.misreading
        assert shown.misreading in repr(shown)


@pytest.mark.parametrize("name", ASKED)
def test_every_wrong_choice_hears_why(name):
    runs, right = USUAL[name]
    choices = set(ASKED[name].choices or ())
    assert choices - {right} == choices & set(ASKED[name].tell(*runs).misreadings)


@pytest.mark.parametrize(("name", "runs"), FAR)
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert f"Here the cost model and the run are apart. {shown.apart}" in repr(shown)


def test_the_terms_of_the_peak_add_up_to_what_the_model_says():
    numbers = [
        int(word) for word in ASKED["05.peak"].tell(737 * KIB, 8, 128).because.split() if word.isdigit()
    ]
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
