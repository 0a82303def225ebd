"""What part f of lesson 04 tells of tokens that count in the loss, beside runs as they come and as they might."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.learn.exercises.lesson_04.predictions.tokens import TOKENS

ASKED = {asked.name: asked for asked in TOKENS}
OWN, OF_ALL = [8.5, 8.5, 1.0, 1.0, 1.0, 1.0, 0.53125, 0.53125], [0.25] * 8
NONE, ALL, FIRST = [False] * 4, [True] * 4, [True, False, False, False]

RUNS = [  # name, what ran, what is measured, what the model says
    ("04.token_weight", (8.5, 0.53125, 16.0), 16.0, 16.0),
    ("04.token_cure", (OWN, OF_ALL, 4), "neither", None),
    ("04.token_nan", (ALL, NONE), "on all ranks", None),
    ("04.token_share", (93.8, 50.0, 94.1), 93.8, 94.1),
]
FAR = [("04.token_share", (70.0, 50.0, 94.1))]
USUAL = usual_runs(RUNS)


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0.5, 1, 8, 20, 50, 64, 75)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("04.token_weight", ["here one has 8.5 and the other 0.53"]),
        ("04.token_cure", ["8.5 to 0.53", "every token weighs 0.25", "4 times too little"]),
        ("04.token_nan", ["With `ignore_index` the loss alone is NaN"]),
        ("04.token_share", ["comes to 50 %"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_what_did_not_come_is_not_told():
    assert ASKED["04.token_nan"].tell(FIRST, NONE).measured == "on rank 0"
    assert ASKED["04.token_nan"].tell(NONE, NONE).measured == "on no rank"
    assert "alone is NaN" not in ASKED["04.token_nan"].tell(ALL, ALL).because
    assert ASKED["04.token_cure"].tell([1.0] * 8, OF_ALL, 4).measured == "the first"
    assert ASKED["04.token_cure"].tell(OWN, [1.0] * 8, 1).measured == "the second"
    assert ASKED["04.token_cure"].tell([1.0] * 8, [1.0] * 8, 1).measured == "both"
