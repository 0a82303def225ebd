"""What part a of lesson 05 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib import cost
from course_lib.learn.exercises.lesson_05.predictions.states import STATES

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
FAR = [
    ("05.memory", (64 * P, 28 * P)),
    ("05.need", (4 * P, P)),
    ("05.states", (4 * KIB * 1024, P)),
    ("05.early", (2.2 * GRADIENTS, GRADIENTS, 12)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (33, 33.3, 34)
    one_sided = ("05.bytes", "05.muon")


def test_the_numbers_told_are_those_of_the_paper():
    assert "88.6 GB of 120" in ASKED["05.table"].tell(PAPER).because
    assert "only 25%" in ASKED["05.need"].tell(8 * P, P).because
