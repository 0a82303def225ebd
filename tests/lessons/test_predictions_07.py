"""What lesson 07 tells of runs that might have been: measured, model, misreadings; and where the two are apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from told_runs import ToldRuns

from course_lib.claims.court.evidence import Evidence
from course_lib.layouts.link import Link
from course_lib.learn import ask, exercises, reveal
from course_lib.learn.exercises.lesson_07.predictions.arrival import ARRIVAL
from course_lib.learn.exercises.lesson_07.predictions.memory_limit import MEMORY_LIMIT
from course_lib.parallel.pipeline import joint_step
from course_lib.schedules import StageTimes, gpipe
from course_lib.schedules.trace import ActionSpan, ScheduleTrace

pytestmark = pytest.mark.xdist_group("exercises")

OF_LATER_PARTS = {one.name for one in (*ARRIVAL, *MEMORY_LIMIT)}  # d and e
ASKED = {one.name: one for one in exercises.predictions_of("07") if one.name not in OF_LATER_PARTS}
TIMES = StageTimes.of(0.010)
CHANGES = {
    "backward takes three times the forward": {"times": StageTimes.of(0.010, 3.0)},
    "stage 1 takes half as long again": {"times": [TIMES, StageTimes.of(0.015), TIMES, TIMES]},
    "a message takes half a forward": {"times": TIMES, "link": Link(latency_s=0.005)},
}


def idle(share):
    """A run of GPipe whose ranks compute one after the other, all within a step of one second."""
    schedule = gpipe(4, 4)
    rows = []
    for rank, row in enumerate(schedule.rows):
        each = (1 - share) / len(row)
        starts = [i * (1 - each) / (len(row) - 1) for i in range(len(row))]
        rows.append(tuple(ActionSpan(rank, a, s, s + each) for a, s in zip(row, starts, strict=True)))
    return ScheduleTrace(schedule, tuple(rows), (), overlap=True)


def tried(verdict):
    return Evidence(verdict, {"devices": 4}, because="so it was found", turns_if="it were otherwise")


def seconds(best):
    return {m: 0.1 if m == best else 0.12 + m / 100 for m in (1, 2, 4, 8, 16, 32)}


RUNS = [  # name, what ran, what is measured, what the model says
    ("07.four", (idle(0.44),), 44, 42.9),
    ("07.b5", (tried("holds with conditions"),), "holds with conditions", "holds with conditions"),
    ("07.best", (seconds(4),), 4, None),
    ("07.in_flight", (16,), 16, 16),
    ("07.1f1b", (TIMES,), "the same", None),
    ("07.formula", (CHANGES,), "backward takes three times the forward", None),
    ("07.bytes", (1_000_000, 3_000_100), 3, 3),
    ("07.payer", ([4, 3, 2, 1], [4, 4, 4, 4]), "on rank 3", "on rank 3"),
    ("07.payer", ([4, 3, 2, 1], [4, 3, 2, 1]), "nowhere", "on rank 3"),
    ("07.payer", ([4, 3, 2, 1], [5, 4, 3, 2]), "on all ranks alike", "on rank 3"),
    ("07.b6", (tried("misleading"),), "misleading", None),
    ("07.sync", (), "gradients are averaged for every micro-batch", None),
    ("07.careful", (), "the loss is averaged twice", None),
    ("07.hangs", (), "both ranks are sending, and neither receives", None),
]
FAR = [
    ("07.four", (idle(0.63),)),
    ("07.b5", (tried("false"),)),
    ("07.in_flight", (4,)),
    ("07.bytes", (1_000_000, 2_000_000)),
    ("07.payer", ([4, 3, 2, 1], [4, 3, 2, 1])),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, range(101)
    one_sided = ("07.payer",)


def test_a_trial_that_decided_nothing_is_told_by_the_model():
    told = ASKED["07.b5"].tell(Evidence("cannot tell here", {}, because="the machine is too busy"))
    assert (told.measured, told.label) == ("holds with conditions", "by the model")
    assert "decided nothing: the machine is too busy" in told.because


def test_where_the_uncut_batch_wins_it_says_what_that_means():
    assert "shared one core" in ASKED["07.best"].tell(seconds(1)).because
    assert "shared one core" not in ASKED["07.best"].tell(seconds(4)).because


def test_the_model_of_an_idle_share_is_the_formula():
    assert ASKED["07.four"].tell(idle(0.6)).model == round(100 * 3 / 7, 1)


def test_what_the_model_says_is_right_though_the_run_is_noisy():
    ask("07.four").reset()
    ask("07.four").commit(43)
    shown = reveal("07.four", idle(0.63))
    assert shown.is_right
    assert "against the run: 20 percentage points too little" in repr(shown)
    ask("07.four").reset()


def test_the_page_averages_with_what_would_pass_the_exercise():
    def by_the_course(model, group, step):
        joint_step(SimpleNamespace(step=lambda x, y: step(), parameters=model.parameters), None, None, group)

    seen = exercises.exercise("07.sync").judge(by_the_course, ())  # right, were it not the course's own
    assert seen.passed, seen.wrong
