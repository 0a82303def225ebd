"""What lesson 00's reveals tell: the right answer from a run, and a sentence for each way to miss it."""

from __future__ import annotations

import json

import pytest
from told_runs import ToldRuns

from course_lib.base.paths import project_root
from course_lib.learn import exercises

ASKED = {asked.name: asked for asked in exercises.predictions_of("00")}
RECORD = json.loads((project_root() / "assets" / "measured" / "torchrun_log.json").read_text(encoding="utf-8"))

RUNS = [  # name, what ran, what is measured, what the model says
    ("00.shared", (0,), "0"),
    ("00.sum", (600.0, 600.0, 100.0), 600.0, 600.0),
    ("00.cause", (), "ranks 1, 2, 3 never came"),
    ("00.first", (RECORD["log"],), "rank 1, killed by a signal"),
]
FAR = [("00.sum", (1600.0, 600.0, 100.0))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (5, 100_000)


def test_the_log_has_two_halves_and_only_the_second_tells():
    """The page shows what stands above torchrun's first line of its own, asks, and then shows the rest."""
    log = RECORD["log"]
    first = next(number for number, line in enumerate(log) if line.startswith("W"))
    assert any(line.startswith("[rank0]: RuntimeError") for line in log[:first])
    assert not any("SIGKILL" in line or "rank      : 1" in line for line in log[:first])
    assert not any(line.startswith("[rank1]") for line in log), "a killed rank has no last words"
    assert "rank 1, exit code -9 (SIGKILL)" in ASKED["00.first"].tell(RECORD["log"]).because


def test_the_recorded_script_has_the_line_that_the_log_names():
    line = next(line for line in RECORD["log"] if "train.py" in line and "line" in line)
    number = int(line.partition("line ")[2].partition(",")[0])
    assert RECORD["script"][number - 1].strip() == "dist.all_reduce(loss)"
    compile("\n".join(RECORD["script"]), "train.py", "exec")


def test_a_log_without_a_table_is_refused():
    with pytest.raises(ValueError, match="no table of torchrun; give all lines"):
        ASKED["00.first"].tell(RECORD["log"][:12])


def test_the_quiz_by_hand():
    right = {question.name: question.answer() for question in exercises.quiz_of("00")}
    assert right == {"memory": 5, "ranks": 23, "mean": 4.0, "exit_codes": 2, "evidence": 2}
