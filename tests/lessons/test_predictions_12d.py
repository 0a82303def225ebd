"""What part d of lesson 12 tells after a run, and the quiz of the whole lesson."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.examples.preflight.report import COULD_NOT, OK, Finding, Report
from course_lib.learn.exercises.lesson_12.predictions.take_along import TAKE_ALONG
from course_lib.learn.exercises.lesson_12.quiz import QUIZ
from course_lib.take_along import LOG, Agent, DryRun, dry_run_limit, his_script, sick_links

ASKED = {asked.name: asked for asked in TAKE_ALONG}


def a_dry_run(hosts: list[str]) -> DryRun:
    words = ("--nnodes", "2", "--nproc-per-node", "8", "-m", "train_ddp")
    return DryRun(tuple(Agent(host, words, {}) for host in hosts), "", 0)


@dataclass(frozen=True)
class Found(Report):
    """A report of 15 lines, some of which could not be checked."""

    @classmethod
    def with_unchecked(cls, count: int) -> Found:
        return cls(tuple(Finding(f"{n}", COULD_NOT if n < count else OK, "") for n in range(15)))


PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
SICK_RANK = {pair: (2e-4, 2e7 if 1 in pair else 2.5e8) for pair in PAIRS}
SICK_LINK = {pair: (2e-4, 2e7 if pair == (0, 3) else 2.5e8) for pair in PAIRS}
SOUND = dict.fromkeys(PAIRS, (2e-4, 2.5e8))
HERE, THERE = Namespace(nnodes="1:1", nproc_per_node="1"), Namespace(nnodes="2", nproc_per_node="8")
KILLED = ("srun got SIGTERM: it kills its step at once", "the script ends with exit code 137")

RUNS = [  # name, what ran, what is measured, what the model says
    ("12.started", (a_dry_run(["node1", "node2"]),), "2 torchruns, 16 ranks", None),
    ("12.tasks", (a_dry_run(["node1"] * 8 + ["node2"] * 8),), 64, None),
    ("12.killed", (KILLED,), "srun: a SIGTERM to it ends its step", None),
    ("12.unsaid", (HERE, THERE), "2", None),
    ("12.sheet", (400,), 50, None),
    ("12.cable", (SICK_RANK,), "rank 1", None),
    ("12.cable", (SICK_LINK,), "the link between two ranks", None),
]
USUAL = usual_runs(RUNS)


class TestToldRuns(ToldRuns):
    asked, runs, guesses = ASKED, RUNS, (0, 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("12.started", ["tasks a node: 2.", "starts 8 ranks"]),
        ("12.tasks", ["8 torchruns on a node, of 8 ranks each", "`--nnodes 2`"]),
        ("12.unsaid", ["PET_NNODES=2", "--nnodes 1:1, with 1 rank"]),
        ("12.sheet", ["50 GB/s"]),
        ("12.cable", ["pairs are 0-1, 1-2, 1-3: at most 20 MB/s", "others reach 250"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_a_link_that_waited_for_a_core_is_not_blamed():
    late = {**SICK_RANK, (0, 2): (2e-3, 2.5e8)}
    told = ASKED["12.cable"].tell(late)
    assert told.measured == "rank 1"
    assert "pairs are 0-1, 1-2, 1-3: at most 20 MB/s" in told.because
    assert "(0-2 stands out as well; it may" in told.because
    assert "no pair without" not in told.because.lower()


def test_one_slow_link_is_told_as_one():
    because = ASKED["12.cable"].tell(SICK_LINK).because
    assert because == "The slow pair is 0-3. A bad card would make all links of one rank slow."


def test_links_that_are_all_alike_are_not_blamed():
    told = ASKED["12.cable"].tell(SOUND)
    assert told.measured == "nothing: all links are like that"
    assert told.because == "No pair stands out."


def test_the_cluster_of_the_clinic_is_sick_in_one_rank():
    links = sick_links()
    measured = {(a, b): (1e-4, links.link(a, b).bandwidth_bytes_per_s) for a, b in PAIRS}
    assert ASKED["12.cable"].tell(measured).measured == "rank 1"


def test_his_script_loses_what_its_log_says():
    steps = dry_run_limit(his_script())
    assert steps[0] == KILLED[0]
    assert ASKED["12.killed"].tell(steps).measured == USUAL["12.killed"].measured
    assert "not to srun" not in his_script()
    assert "srun: forcing job termination" in LOG


@pytest.mark.parametrize("question", QUIZ, ids=lambda question: question.name)
def test_every_wrong_answer_of_the_quiz_hears_why(question):
    right = question.answer()
    assert right in question.choices
    assert set(question.choices) - {right} == set(question.misconceptions)


def test_what_the_quiz_counts_is_so():
    right = {question.name: question.answer() for question in QUIZ if not question.part}
    assert right == {"place": (3, 1), "crossing": 800, "dead": 24, "interval": 0.5, "share": 44}
