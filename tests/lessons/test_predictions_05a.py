"""What part a of lesson 05 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest

from course_lib import cost
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_05.predictions_states import STATES

ASKED = {asked.name: asked for asked in STATES}
P = 232_000  # parameters of the lesson's transformer
KIB = P * 4 / 1024
GRADIENTS = 12 * 4 * 128 * 128
SAME, OTHER = "what one device computes", "something else, without an error"
PAPER = [cost.sharded_state(7_500_000_000, stage=stage, num_ranks=64) for stage in range(4)]

RUNS = [  # name, what ran, what is measured, what the model says
    ("05.memory", (64 * P, 16 * P), 75, 75),
    ("05.need", (8 * P, P), 50, 50),
    ("05.bytes", (1_392_000, 1_392_000), "as much as before", None),
    ("05.bytes", (1_392_000, 2_088_000), "more than before", None),
    ("05.bytes", (1_392_000, 1_000_000), "less than before", None),
    ("05.states", (2_320_144, P), 2266, round(2.5 * KIB)),
    ("05.early", (0.48 * GRADIENTS, GRADIENTS, 12), 48, 50),
    ("05.table", (PAPER,), "stage 1, the optimizer's part", None),
    ("05.muon", ({"w_q": 0.64, "w_up": 0.81},), OTHER, None),
    ("05.muon", ({"w_q": 1.0, "w_up": 1.0},), SAME, None),
]
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of several runs the first
FAR = [
    ("05.memory", (64 * P, 28 * P)),
    ("05.need", (4 * P, P)),
    ("05.states", (4 * KIB * 1024, P)),
    ("05.early", (2.2 * GRADIENTS, GRADIENTS, 12)),
]


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_prediction_is_tried():
    assert list(dict.fromkeys(name for name, *_ in RUNS)) == list(ASKED)


@pytest.mark.parametrize(("name", "runs", "measured", "model"), RUNS)
def test_a_run_is_told_as_it_was(name, runs, measured, model):
    told = ASKED[name].tell(*runs)
    assert told.measured == measured
    assert told.model == (None if model is None else pytest.approx(model))
    if ASKED[name].choices is not None:
        assert told.measured in ASKED[name].choices


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for key, sentence in ASKED[name].tell(*runs).misreadings.items():
        if callable(key):
            assert not key(right)
            wrong = next(n for n in (33, 33.3, 34) if key(n))
        else:
            wrong = key
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, *runs)
        assert not shown.is_right
        assert shown.misreading == sentence
        assert sentence in repr(shown)


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


def test_the_numbers_told_are_those_of_the_paper():
    assert "88.6 GB of 120" in ASKED["05.table"].tell(PAPER).because
    assert "only 25%" in ASKED["05.need"].tell(8 * P, P).because
