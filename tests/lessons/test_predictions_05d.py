"""What part d of lesson 05 tells after a run: right beside plausible runs, and frank beside runs far from the model."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_05.predictions.links import LINKS

ASKED = {asked.name: asked for asked in LINKS}
MIB = 2**20

RUNS = [  # name, what ran, what is measured, what the model says
    ("05.half", (3.375 * MIB, 2.25 * MIB), 3.38, 3.38),
    ("05.slower", (0.183, 0.165, 0.160, 0.154), 183, 160),
    ("05.slower", (0.440, 0.345, 0.425, 0.343), 440, 425),
    ("05.larger", (1.0,), 1, None),
    ("05.hybrid", (1.5 * MIB, 3.75 * MIB, 1.5 * MIB), 1.5, 1.5),
    ("05.accumulate", (54, 72, 6), 54, 54),
    ("05.sum", (256.0,), 256, None),
]
FAR = [
    ("05.half", (4.5 * MIB, 2.25 * MIB)),
    ("05.slower", (0.300, 0.200, 0.160, 0.154)),
    ("05.hybrid", (3 * MIB, 3.75 * MIB, 1.5 * MIB)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (260, 50, 1000)


def test_on_a_slow_link_the_explanation_turns():
    fast, slow = (ASKED["05.slower"].tell(*runs).because for name, runs, *_ in RUNS if name == "05.slower")
    assert "it takes 4% longer than DDP" in fast
    assert "DDP has to wait for its gradients as well" in slow
    assert "24% longer" in slow


def test_what_a_run_takes_beyond_the_model_is_said_once():
    def because(sharded_s: float) -> str:
        return ASKED["05.slower"].tell(sharded_s, 0.168, 0.160, 0.154).because

    assert "In this run it takes 16% longer" in because(0.195)
    assert "In this run" not in because(0.176)  # as far behind DDP as by the model
    assert "In this run" not in because(0.220)  # too far from the model: that is said by itself
