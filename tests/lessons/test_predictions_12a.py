"""What part a of lesson 12 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_12.place import places_on
from course_lib.learn.exercises.lesson_12.predictions.nodes import NODES

ASKED = {asked.name: asked for asked in NODES}
MIB = 2**20
SIZES = [8, 4, 4]
STEP = {"DDP": 3 * MIB // 2, "sharded over all": 5 * MIB // 2, "hybrid": MIB}
PIECES = {"DDP": 3 * MIB // 2, "sharded over all": 7 * MIB, "hybrid": MIB}

RUNS = [  # name, what ran, what is measured, what the model says
    ("12.first", ({"ant": 0, "zebra": 1},), "ant", None),
    ("12.first", ({"zebra": 0, "ant": 1},), "zebra", None),
    ("12.gpu", (places_on(SIZES), SIZES), 4, None),
    ("12.gpu", (places_on([8, 4, 8]), [8, 4, 8]), 0, None),
    ("12.turn", (6 * MIB, 3 * MIB), 2, 2),
    ("12.leave", (2 * MIB, 3 * MIB, 2 * MIB), 2, 2),
    ("12.steps", (STEP, MIB), "hybrid", None),
    ("12.pieces", (PIECES, STEP), 7, 7),
]
FAR = [
    ("12.turn", (3 * MIB, 3 * MIB)),
    ("12.leave", (3 * MIB, 3 * MIB, 2 * MIB)),
    ("12.pieces", ({**PIECES, "hybrid": 4 * MIB}, STEP)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR


def test_the_numbers_told_are_those_of_the_run():
    assert "Now 6 MiB leave a node, and before it was 3." in ASKED["12.turn"].tell(6 * MIB, 3 * MIB).because
    assert "A third is saved, 3 MiB to 2." in ASKED["12.leave"].tell(2 * MIB, 3 * MIB, 2 * MIB).because
    assert "the other begins at 12" in ASKED["12.gpu"].tell(places_on(SIZES), SIZES).because
    said = ASKED["12.steps"].tell(STEP, MIB).because
    assert "1.00 for hybrid, 1.50 for DDP, and 2.50 sharded over all four" in said


def test_a_version_that_numbers_agents_otherwise_is_not_told_as_one_that_sorts_them():
    assert "by another rule than their names" in ASKED["12.first"].tell({"zebra": 0, "ant": 1}).because
