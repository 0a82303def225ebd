"""What part d of lesson 09 tells after a run: as it was, and frank where the model does not meet it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.claims import VERDICTS
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_09.predictions_assembled import ASSEMBLED
from course_lib.learn.exercises.lesson_09.quiz import QUIZ

ASKED = {asked.name: asked for asked in ASSEMBLED}
SENT = {"pp": 131_072, "dp_shard": 2_147_328, "tp": 1_171_456}
RUNS = [  # name, what ran, what is measured, what the model says
    ("09.inside", ("IndexError: index out of range in self",), "an error about something else", None),
    ("09.inside", ("ValueError: a slice of a shard",), "an error that says what is wrong", None),
    ("09.inside", ("",), "no error, and the losses of one device", None),
    ("09.kept", (0.12855, [0.12855] * 4 + [0.12428] * 4), 12.9, 12.5),
    ("09.most", (SENT, 4), "dp_shard", None),
    ("09.most", (SENT | {"tp": 9_000_000}, 4), "tp", None),
    ("09.micro", (1.8888, 4), 1.89, 17 / 9),
    ("09.strip", (128,), "128 to 191", None),
    ("09.strip", (64,), "64 to 127", None),
    ("09.a12", (SimpleNamespace(verdict="holds"),), "holds", None),
]
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of several runs the first


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
    assert told.model == (pytest.approx(model) if model else None)


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for key in ASKED[name].tell(*runs).misreadings:
        wrong = 100 if callable(key) else key
        if wrong == right:  # another run's
            continue
        assert not callable(key) or (key(wrong) and not key(right))
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
    assert choices - {right} <= set(ASKED[name].tell(*runs).misreadings) | {right}


@pytest.mark.parametrize(("name", "runs"), [("09.kept", (0.25, [0.25] * 8)), ("09.micro", (1.0, 4))])
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert f"Here the cost model and the run are apart. {shown.apart}" in repr(shown)


def test_the_axis_is_told_with_the_factor_of_the_run():
    assert "1.8 times what tp does" in ASKED["09.most"].tell(SENT, 4).because
    assert "8 all-gathers" in ASKED["09.most"].tell(SENT, 4).because


def test_the_bet_is_on_the_verdict_of_a_trial():
    assert ASKED["09.a12"].choices == VERDICTS


def test_every_question_of_the_quiz_has_a_computed_answer_and_a_sentence_for_each_other():
    answers = {question.name: question.answer() for question in QUIZ}
    assert answers == {"neighbour": 35, "nodes": "pp and dp_shard", "shares": 4, "seeds": 4, "gathers": 11.0}
    for question in QUIZ:
        assert set(question.choices) - {answers[question.name]} == set(question.misconceptions)
