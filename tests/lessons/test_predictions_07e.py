"""What part e of lesson 07 tells of a limit of memory, of rules for ties and of two programs."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_07.predictions.memory_limit import MEMORY_LIMIT

ASKED = {asked.name: asked for asked in MEMORY_LIMIT}
F, I, W = "F before I", "I before F", "I before F, each W at once"  # noqa: E741


class TestToldRuns(ToldRuns):
    asked, far, guesses = ASKED, [], ()
    runs = (
        ("07.half_memory", (0.41, 1.01), 2.46, None),
        ("07.tie", ({F: 0.24, I: 0.19, W: 0.21},), I, None),
        ("07.tie", ({F: 0.19, I: 0.2, W: 0.21},), F, None),
        ("07.tie", ({F: 0.2, I: 0.2, W: 0.19},), W, None),
        ("07.tie", ({F: 0.2, I: 0.2, W: 0.2},), "all three take equally long", None),
        ("07.small_memory", (0.85, 1.23), "more than a tenth shorter", None),
        ("07.small_memory", (1.0, 1.05), "within a tenth of it", None),
        ("07.small_memory", (1.3, 1.0), "more than a tenth longer", None),
    )


def test_a_step_is_laid_beside_the_bound_of_a_memory_that_turns_over():
    told = ASKED["07.half_memory"].tell(0.41, 1.04).because
    assert "at least 52 times 10 ms" in told
    assert "has 2.00 times that" in told


def test_two_steps_are_laid_beside_each_other():
    assert "Here your step takes 0.50 times as long." in ASKED["07.small_memory"].tell(0.5, 1.0).because
