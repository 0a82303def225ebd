"""What lesson 13 tells beside its bets: right for plausible runs, and for runs that went another way."""

from __future__ import annotations

from types import SimpleNamespace

from told_runs import ToldRuns

from course_lib.claims import trial
from course_lib.learn.exercises.lesson_13.predictions.claims import CLAIM_BETS, SIGHTS

ASKED = {asked.name: asked for asked in CLAIM_BETS}
DOWN, NO_ERROR, EQUAL = SIGHTS
USUAL = {DOWN: (True, True), NO_ERROR: (True, True), EQUAL: (False, True)}


def b2(share):
    return SimpleNamespace(
        facts={
            "moving : waiting, 8x H100, inside": share,
            "moves of the batch's activations, or of their gradients": 6,
            "bytes of each": "128 MiB",
        }
    )


RUNS = [
    ("13.tells", (USUAL,), EQUAL, None),
    ("13.tells", (USUAL | {DOWN: (False, True)},), "2 of them", None),
    ("13.waiting", (b2("0.001"),), 0.1, None),
    ("13.waiting", (b2("0.012"),), 1.2, None),
    ("13.flips", ({1: 18.6, 3: 9.9, 15: 0.35},), 19, None),
]


class TestToldRuns(ToldRuns):
    asked, runs, guesses = ASKED, RUNS, (2, 3, 10, 25, 40)
    unforeseen = ("2 of them",)

    test_every_wrong_choice_hears_why = None  # of two sights that differ each is half of the answer


def test_every_sight_that_does_not_tell_hears_why():
    assert set(ASKED["13.tells"].tell(USUAL).misreadings) == {DOWN, NO_ERROR}


def test_the_trial_of_b2_has_the_facts_that_are_told(cluster4):
    told = ASKED["13.waiting"].tell(trial("B2").run({4: cluster4}.__getitem__))
    assert 0 < told.measured < 3
