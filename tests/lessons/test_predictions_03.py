"""What lesson 03's reveals tell: the right answer from a run, and a sentence for each way to miss it."""

from __future__ import annotations

from fractions import Fraction

import torch
import torch.nn.functional as F
from told_runs import ToldRuns
from torch import nn

from course_lib.learn import exercises
from course_lib.parallel.data import memory_by_device
from course_lib.parallel.data.threads import thread_race
from course_lib.parallel.data.threads.thread_race import Race

ASKED = {asked.name: asked for asked in exercises.predictions_of("03")}
SLOWED = Race(2, one_s=(1.0, 0.9), threads_s=(1.5, 1.0), processes_s=(0.5,))
GAINED = Race(2, one_s=(0.9,), threads_s=(0.6,), processes_s=(0.5,))
PLACES = [(process, thread) for process in range(4) for thread in range(4)]

RUNS = [  # name, what ran, what is measured, what the model says
    ("03.rows", ([8, 8, 8, 8],), 8),
    ("03.copies", (6 * 4000.0, 4000), 6, 6),
    ("03.mean", (10.0,), 10),
    ("03.device_0", ({"device 0": {"parameter": 300, "other": 28}, "device 1": {"parameter": 200}},), 1.64),
    ("03.threads", (SLOWED,), 0.9),
    ("03.self", (), "a replica counts on itself, and is thrown away"),
    ("03.keys", (), "no name in the file fits"),
    ("03.processes", (PLACES,), 16),
]
FAR = [("03.copies", (9 * 4000.0, 4000))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0.5, 2, 4)


def test_device_0_is_told_of_what_the_lesson_measures():
    model = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters())
    batch = torch.zeros(8, 2), torch.zeros(8, dtype=torch.long)
    held = memory_by_device(model, optimizer, batch, F.cross_entropy, 4)
    told_of = ASKED["03.device_0"].tell(held).measured
    assert told_of == round(sum(held["device 0"].values()) / sum(held["device 1"].values()), 2) > 1


def test_threads_that_gain_are_not_said_to_lose(monkeypatch):
    assert "used up nearly all" in ASKED["03.threads"].tell(SLOWED).because
    gained = ASKED["03.threads"].tell(GAINED).because
    assert "gained a little" in gained
    assert "used up" not in gained
    assert "processes" not in gained
    crowded = Race(2, one_s=(1.0,), threads_s=(1.6,), processes_s=(1.25,))
    assert "two processes, which share no lock, came to 0.80 times" in ASKED["03.threads"].tell(crowded).because
    monkeypatch.setattr(exercises.lesson_03.predictions, "interpreter_lock", lambda: "off")
    assert ASKED["03.threads"].tell(GAINED).because.startswith("Your Python has no such lock.")
    assert thread_race.interpreter_lock() in ("on", "off")


def test_who_counts_other_copies_is_told_what_they_are():
    assert ASKED["03.copies"].tell(*FAR[0][1]).apart.startswith("These are counted bytes")


def test_the_quiz_by_hand():
    right = {question.name: question.answer() for question in exercises.quiz_of("03")}
    assert right == {"steps": 32, "ragged": (3, 3, 3), "copied": 600, "lock": 14, "mean": Fraction(7, 5)}
