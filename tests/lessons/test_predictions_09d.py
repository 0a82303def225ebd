"""What part d of lesson 09 tells after a run: as it was, and frank where the model does not meet it."""

from __future__ import annotations

from types import SimpleNamespace

from told_runs import ToldRuns

from course_lib.claims import VERDICTS
from course_lib.learn.exercises.lesson_09.predictions.assembled import ASSEMBLED
from course_lib.learn.exercises.lesson_09.quiz import QUIZ

ASKED = {asked.name: asked for asked in ASSEMBLED}
SENT = {"pp": 131_072, "dp_shard": 2_147_328, "tp": 1_171_456}
RUNS = [  # name, what ran, what is measured, what the model says
    (
        "09.inside",
        ("RuntimeError: w is at rest: this rank keeps (2, 4) of its shape (4, 4)",),
        "an error that says what is wrong",
        None,
    ),
    ("09.inside", ("IndexError: index out of range in self",), "an error about something else", None),
    ("09.inside", ("ValueError: a slice of a shard",), "an error that says what is wrong", None),
    ("09.inside", ("",), "no error, and the losses of one device", None),
    ("09.kept", (0.12855, [0.12855] * 4 + [0.12428] * 4), 12.9, None),
    ("09.most", (SENT, 4), "dp_shard", None),
    ("09.most", (SENT | {"tp": 9_000_000}, 4), "tp", None),
    ("09.micro", (1.8888, 4), 1.89, 17 / 9),
    ("09.strip", (128,), "128 to 191", None),
    ("09.strip", (64,), "64 to 127", None),
    ("09.a12", (SimpleNamespace(verdict="holds"),), "holds", None),
]
FAR = [("09.micro", (1.0, 4))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (100,)
    one_sided = ("09.inside", "09.strip")


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
