"""What part c of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_10.predictions_experts import EXPERTS

ASKED = {asked.name: asked for asked in EXPERTS}
SCORES = "the scores lose digits before the choice"
TWO, MIXED = "2 experts, each of them four times", "8 experts, with gradients of other experts mixed in"

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.flops", (67_633_152, 33_554_432, 8, 2), 2.02, 2),
    ("10.learns", (8, 2, 8, 2), 8, None),
    ("10.astray", (0.089, 0.008, 0.029, 0.003), SCORES, None),
    ("10.travels", (3.012, 2, 4), 3.01, 3),
    ("10.own", (4.0001, 4), 4, 4),
    ("10.wrapped", (2, 8, 4), TWO, None),
    ("10.wrapped", (8, 8, 4), MIXED, None),
    ("10.lighter", (469_762_104, 3_758_096_384.0, 8, 2), 8, None),
]
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of several runs the first
FAR = [("10.flops", (268_435_456, 33_554_432, 8, 2)), ("10.travels", (6.0, 2, 4)), ("10.own", (1.0, 4))]


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
        wrong = 0.5 if callable(key) else key
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


def test_what_the_clinic_tells_has_the_numbers_of_its_run():
    told = ASKED["10.astray"].tell(0.089, 0.008, 0.029, 0.003)
    assert "8.9% of the tokens went to another expert" in told.because
    assert "0.8% go elsewhere" in told.because
    assert "2.9% off for that" in told.misreadings["the weights of the outputs lose digits"]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("10.travels", 2, "one stays at home"),
        ("10.lighter", 4, "sends each number about twice"),
        ("10.lighter", 16, "two journeys, or with one expert"),
    ],
)
def test_half_an_account_hears_what_it_left_out(name, answer, words):
    ask(name).commit(answer)
    shown = reveal(name, *USUAL[name][0])
    assert not shown.is_right
    assert words in shown.misreading
