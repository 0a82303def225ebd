"""What part e of lesson 05 tells after a run: as it was, and frank where the model does not meet it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from told_runs import ToldRuns

from course_lib.claims import VERDICTS
from course_lib.learn.exercises.lesson_05.predictions.model import ONE_MODEL
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
    ("05.tied", (), "each wrapper made a weight of its own", None),
    ("05.d2", (bet("misleading"),), "misleading", None),
]
FAR = [("05.norm", (1.2, 4)), ("05.meta", (0.75, 0.25, 0.21))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (100,)


def test_the_bet_is_on_the_verdict_of_a_trial():
    assert ASKED["05.d2"].choices == VERDICTS


def test_every_question_of_the_quiz_has_a_computed_answer_and_a_sentence_for_each_other():
    answers = {question.name: question.answer() for question in QUIZ if not question.part}
    assert answers == {"stage": 2, "left": 50, "keep": 1.0, "mixed": "2/3", "rows": 1}
    for question in QUIZ[: len(answers)]:
        assert set(question.choices) - {answers[question.name]} == set(question.misconceptions)
