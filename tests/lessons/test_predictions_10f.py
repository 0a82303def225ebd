"""What part f of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.cost import distinct_groups
from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_10.predictions.small import SMALL

ASKED = {asked.name: asked for asked in SMALL}
SPLIT, BOTH, NEITHER = (
    f"experts {one} even, ranks {other} even" for one, other in (("less", "more"), ("more", "more"), ("less", "less"))
)
WORK = "4 times the rows are sent and computed, all else is right"
OUTPUTS, GRADIENTS = "the outputs are wrong", "the gradients of experts are 4 times too large"
FIVE = distinct_groups(num_experts=256, top_k=8, num_groups=8)

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.per_byte", (24576.0, 3511.0, 14336, 2048, 4), 0.143, 0.143),
    ("10.even", ((1.03, 1.03), (1.14, 1.01)), SPLIT, None),
    ("10.even", ((1.03, 1.03), (1.02, 1.01)), BOTH, None),
    ("10.even", ((1.03, 1.03), (1.14, 1.05)), NEITHER, None),
    ("10.nodes", (5.294, FIVE, 8, 8), 5.29, 5.29),
    ("10.limited", (1_614_000, 6_218_000, 4, 2, 8), 26, 25),
    ("10.folded", (4096, 1024, True, True), WORK, None),
    ("10.folded", (4096, 1024, True, False), GRADIENTS, None),
    ("10.folded", (4096, 1024, False, False), OUTPUTS, None),
]
USUAL = usual_runs(RUNS)
FAR = [("10.nodes", (3.1, FIVE, 8, 8)), ("10.limited", (6_000_000, 6_218_000, 4, 2, 8))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (1.0,)
    one_sided = ("10.even", "10.folded")

    @pytest.mark.parametrize(
        ("name", "answer", "words"),
        [
            ("10.per_byte", 0.25, "the arithmetic has that factor too"),
            ("10.per_byte", 7, "the other way round"),
            ("10.nodes", 8, "some nodes get two or three"),
            ("10.nodes", 7, "different nodes"),
            ("10.limited", 33, "may be the own one, too"),
            ("10.limited", 50, "there are 8 choices"),
        ],
    )
    def test_half_an_account_hears_what_it_left_out(self, name, answer, words):
        ask(name).commit(answer)
        shown = reveal(name, *USUAL[name].given)
        assert not shown.is_right
        assert words in shown.misreading


def test_what_is_told_of_dice_has_the_numbers_of_its_run():
    told = ASKED["10.even"].tell((1.03, 1.04), (1.14, 1.01))
    assert "1.14 times the mean, in place of 1.03" in told.because
    assert "1.01 times the mean, in place of 1.04" in told.because
