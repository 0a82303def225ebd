"""What part g of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.layouts import DocumentCut
from course_lib.learn.exercises.lesson_10.predictions.packed import PACKED

ASKED = {asked.name: asked for asked in PACKED}
LENGTHS, SHORT = [40, 8, 8, 8], [3] * 21 + [1]
ZIGZAG, BY_WORK = DocumentCut.by_order(LENGTHS, 4, "zigzag"), DocumentCut.by_order([24, 8, 24, 8], 4, "by_work")

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.packed", ([72, 136, 200, 520], ZIGZAG), 2.24, 2.24),
    ("10.unused", (98_304, 24_576, ZIGZAG), 75, 75.0),
    ("10.ahead", (0.72, BY_WORK), 72, pytest.approx(72.4, abs=0.05)),
    ("10.short", (0, SHORT, 4), 0, 0),
]
FAR = [
    ("10.packed", ([232] * 4, ZIGZAG)),
    ("10.unused", (98_304, 90_000, ZIGZAG)),
    ("10.ahead", (0.47, BY_WORK)),
    ("10.short", (16, SHORT, 4)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR


def test_what_is_said_of_the_ranks_is_so():
    because = ASKED["10.packed"].tell([72, 136, 200, 520], ZIGZAG).because
    assert "Rank 3 computes 520 pairs, rank 0 72." in because
    # Rank 3 has the last 16 keys of the long document, and no other rank looks at one of them.
    assert list(ZIGZAG.owned[3]) == list(range(24, 40))
    assert not ZIGZAG.seen_by(3, [0, 1, 2])
    misread = ASKED["10.unused"].tell(98_304, 24_576, ZIGZAG).misreadings
    assert {0, 25, round(100 * 24 / 64)} <= set(misread)
    assert DocumentCut.by_order(SHORT, 4, "per_document").sizes == (22, 21, 21, 0)


def test_what_others_predict_is_in_the_misreadings():
    assert {47, 100} <= set(ASKED["10.ahead"].tell(0.72, BY_WORK).misreadings)
    assert {16, 22, 21} <= set(ASKED["10.short"].tell(0, SHORT, 4).misreadings)
