"""What part b of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_10.predictions.balance import BALANCE
from course_lib.models import TransformerConfig

ASKED = {asked.name: asked for asked in BALANCE}
SMALL = TransformerConfig(width=64, num_heads=8, num_kv_heads=4)
STAY, SCORES, UNEVEN, LAST = ASKED["10.equal"].choices
ERROR, STUCK, GOOD, WORSE = ASKED["10.numbers"].choices
RING, HEADS, RING_FIRST, RING_LAST = ASKED["10.which"].choices
PAIRS, EVEN = [136, 392, 648, 904], [528, 553, 515, 484]

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.last", (PAIRS,), 43, 43.75),
    ("10.lap", (0.57, 64, 4), 57, pytest.approx(57.5, abs=0.05)),
    ("10.equal", (EVEN, [114, 50, 35, 28]), UNEVEN, None),
    ("10.equal", (EVEN, [50, 50, 50, 50]), STAY, None),
    ("10.equal", (PAIRS, [57, 57, 57, 57]), LAST, None),
    ("10.numbers", (5.54, 1.42, 2.01), WORSE, None),
    ("10.numbers", (5.54, 1.07, 0.96), GOOD, None),
    ("10.numbers", (5.54, 5.53, 5.6), STUCK, None),
    ("10.sent", (24_576, 18_432, SMALL, 4), 0.75, 0.75),
    ("10.which", ({1: 1.3, 2: 39.8}, {1: 0.5, 2: 44.4}), RING_LAST, None),
    ("10.which", ({1: 0.3, 2: 49.8}, {1: 0.5, 2: 44.4}), RING_FIRST, None),
    ("10.which", ({1: 0.3, 2: 39.8}, {1: 0.5, 2: 44.4}), RING, None),
    ("10.which", ({1: 1.3, 2: 49.8}, {1: 0.5, 2: 44.4}), HEADS, None),
]
FAR = [
    ("10.last", ([4, 4, 4, 4],)),
    ("10.lap", (0.95, 64, 4)),
    ("10.sent", (24_576, 24_576, SMALL, 4)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR
    one_sided = ("10.equal", "10.numbers", "10.which")


def test_what_is_said_of_the_blocks_is_so():
    """Three blocks and a half of eight for the last of four, half a block for the first; two on average."""
    because = ASKED["10.last"].tell(PAIRS).because
    assert "3 and a half blocks, of 8 that are seen" in because
    assert "half a block, 7%" in because
    assert "The mean over ranks is 2 blocks" in ASKED["10.lap"].tell(0.57, 64, 4).because
