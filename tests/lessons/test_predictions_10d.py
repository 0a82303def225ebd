"""What part d of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import math

import pytest
import torch
from told_runs import ToldRuns, usual_runs

from course_lib.cost import expert_layer_time
from course_lib.layouts.link import Link
from course_lib.learn.exercises.lesson_10.predictions.busy import BUSY
from course_lib.learn.exercises.lesson_10.quiz import QUESTIONS
from course_lib.learn.exercises.lesson_10.room.wrong_answers import MISTAKES
from course_lib.parallel.experts import Routing

ASKED = {asked.name: asked for asked in BUSY}
EVEN, SKEWED = (
    expert_layer_time(counts, width=8, row_s=2e-3, network=Link()) for counts in ([[7] * 8] * 4, [[28] + [4] * 7] * 4)
)
APART = torch.tensor([-1.0, -1.0, 1.0, 1.0]).view(4, 1) / math.sqrt(4 / 3)  # a standard deviation of 1
FIRST = 0.125 + 0.012 * APART.expand(4, 8)
EARLY = torch.tensor([[0.3, 0.3, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]]) + 0.004 * APART
PROBABILITIES, CHOICES = torch.tensor([0.45, 0.275, 0.175, 0.1]), torch.tensor([0, 100, 0, 0])
SHARES = [0.5, *[1.0] * 30, *[0.68] * 10]


def routing(num_kept: int) -> Routing:
    """512 tokens with two choices each, of which so many have room."""
    kept = torch.arange(1024).view(512, 2) < num_kept
    return Routing(torch.zeros(512, 2, dtype=torch.int64), None, torch.zeros(512, 8), kept)


RUNS = [  # name, what ran, what is measured, what the model says
    ("10.slowest", (0.112, 0.256, EVEN, SKEWED), 2.29, 2.29),
    ("10.slowest", (0.14, 0.28, EVEN, SKEWED), 2, 2.29),
    ("10.alone", (SHARES, FIRST, EARLY), 68, None),
    ("10.steps", (88, PROBABILITIES, CHOICES), 88, 88),
    ("10.dealt", (0.017, 0.126), 12.6, 13.2),
    ("10.tenth", ([routing(870)] * 3, 128), "an expert takes fewer tokens than the factor says", None),
    ("10.copies", (2.0001, 1.0), 2, 2),
]
USUAL = usual_runs(RUNS)
FAR = [
    ("10.slowest", (0.112, 0.45, EVEN, SKEWED)),
    ("10.steps", (44, PROBABILITIES, CHOICES)),
    ("10.dealt", (0.017, 0.05)),
    ("10.copies", (4.0, 1.0)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0, 40, 95, 100, 200)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("10.slowest", ["128 rows", "each rank has 56"]),
        (
            "10.alone",
            [
                "up to 100% of all tokens",
                "by 0.110 in place of 0.000, and",
                "by 0.004 in place of 0.012. The router",
            ],
        ),
        ("10.steps", ["loses 0.001 a step", "distance of 0.175", "all 100 tokens go to expert 1"]),
        ("10.tenth", ["are 128 for each expert", "would be 256", "gives 128", "15% of all choices"]),
        ("10.copies", ["gives 1.00 times the right one"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_what_is_said_of_dice_is_so():
    """Give or take 2.6 of 8 and 21 of 512, by the formula and by throws."""
    throws = torch.randint(8, (400, 4096), generator=torch.Generator().manual_seed(1))
    for num_tokens, stray in ((64, 2.6), (4096, 21.0)):
        found = (throws[:, :num_tokens] == 0).sum(1).float().std()
        assert found == pytest.approx(stray, rel=0.15)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_every_wrong_answer_of_the_quiz_hears_why(question):
    right = question.answer()
    assert right in question.choices
    assert set(question.choices) - {right} == set(question.misconceptions)


def test_what_the_quiz_counts_is_so():
    """3.5 squares of time for what takes 2; the ring is lighter on few ranks; 313 places; and the forgotten choice."""
    from course_lib.learn.exercises.lesson_10 import quiz

    by_name = {question.name: question for question in QUESTIONS}
    assert by_name["causal"].answer() == 3.5 / 2
    assert (quiz._cheaper(4), quiz._cheaper(8)) == ("the ring", "the all-to-alls")
    forgets = {mistake.name: mistake.example for mistake in MISTAKES}["as-it-was"]
    assert by_name["capacity"].answer() == 500 - 313
    assert 500 - forgets(1000, 8, 2, 1.25) == 343


def test_who_guesses_more_than_came_hears_the_most_that_there_was():
    told = ASKED["10.alone"].tell([0.51, 0.62, *[0.5] * 10], FIRST, EARLY).misreadings
    heard = [said for holds, said in told.items() if callable(holds) and holds(100)]
    assert len(heard) == 1
    assert heard[0].startswith("At most it was 62%, in step 1.")
