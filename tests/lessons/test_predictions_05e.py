"""What part e of lesson 05 tells after a run: as it was, and frank where the model does not meet it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.claims import VERDICTS
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_05.predictions_model import ONE_MODEL
from course_lib.learn.exercises.lesson_05.quiz import QUIZ

ASKED = {asked.name: asked for asked in ONE_MODEL}


def bet(verdict):
    return SimpleNamespace(verdict=verdict)


RUNS = [  # name, what ran, what is measured, what the model says
    ("05.clip", (), "each rank measures its own rows alone", None),
    ("05.norm", (1.9999983, 4), 2.0, 2.0),
    ("05.norm", (1.4142, 2), 1.41, pytest.approx(1.4142, abs=1e-3)),
    ("05.meta", (0.4624, 0.25, 0.2124), 46, 46),
    ("05.files", (), "the rows of different parameters are mixed", None),
    ("05.world", (["__2_0.distcp", "__1_0.distcp"],), "files 1 and 2", None),
    ("05.world", (["__0_0.distcp", "__2_0.distcp"],), "files 0, 2", None),
    ("05.tied", (), "each wrapper made a weight of its own", None),
    ("05.d2", (bet("misleading"),), "misleading", None),
]
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of two runs the first


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
    assert told.model == model


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for key in ASKED[name].tell(*runs).misreadings:
        wrong = 100 if callable(key) else key
        assert wrong != right
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
    assert choices - {right} == choices & set(ASKED[name].tell(*runs).misreadings)


@pytest.mark.parametrize(("name", "runs"), [("05.norm", (1.2, 4)), ("05.meta", (0.75, 0.25, 0.21))])
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert f"Here the cost model and the run are apart. {shown.apart}" in repr(shown)


def test_the_bet_is_on_the_verdict_of_a_trial():
    assert ASKED["05.d2"].choices == VERDICTS


def test_every_question_of_the_quiz_has_a_computed_answer_and_a_sentence_for_each_other():
    answers = {question.name: question.answer() for question in QUIZ}
    assert answers == {"stage": 2, "left": 50, "keep": 1.0, "mixed": "2/3", "rows": 1}
    for question in QUIZ:
        assert set(question.choices) - {answers[question.name]} == set(question.misconceptions)
