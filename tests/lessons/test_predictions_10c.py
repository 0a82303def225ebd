"""What part c of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_10.predictions.experts import EXPERTS

ASKED = {asked.name: asked for asked in EXPERTS}
SCORES = "the scores lose digits before the choice"
TWO, MIXED = "2 experts, each of them four times", "8 experts, with gradients of other experts mixed in"

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.learns", (8, 2, 8, 2), 8, None),
    ("10.astray", (0.089, 0.008, 0.029, 0.003), SCORES, None),
    ("10.travels", (3.012, 2, 4), 3.01, 3),
    ("10.own", (4.0001, 4), 4, 4),
    ("10.wrapped", (2, 8, 4), TWO, None),
    ("10.wrapped", (8, 8, 4), MIXED, None),
    ("10.lighter", (469_762_104, 3_758_096_384.0, 8, 2), 8, None),
]
USUAL = usual_runs(RUNS)
FAR = [("10.travels", (6.0, 2, 4)), ("10.own", (1.0, 4))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0.5,)
    one_sided = ("10.wrapped",)

    @pytest.mark.parametrize(
        ("name", "answer", "words"),
        [
            ("10.travels", 2, "stays at home"),
            ("10.lighter", 4, "sends each number about twice"),
            ("10.lighter", 16, "two exchanges, or with one expert"),
        ],
    )
    def test_half_an_account_hears_what_it_left_out(self, name, answer, words):
        ask(name).commit(answer)
        shown = reveal(name, *USUAL[name].given)
        assert not shown.is_right
        assert words in shown.misreading


def test_what_the_clinic_tells_has_the_numbers_of_its_run():
    told = ASKED["10.astray"].tell(0.089, 0.008, 0.029, 0.003)
    assert "8.9% of the tokens went to another expert" in told.because
    assert "0.8% go elsewhere" in told.because
    assert "off by 2.9% or more" in told.misreadings["the weights of the outputs lose digits"]
