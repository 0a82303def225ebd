"""Wrong answers to lesson 14, nearly right, run for real: each is refused, with a sentence that is true."""

from __future__ import annotations

import re

import pytest
from planted_14 import WRONG, handed_in

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_14 import EXERCISES

# What the verdict says: by its mistake's name, or by words of its message and evidence.
SAID = {
    "ForgetsToAverage": r"is off by .* of what training moves",
    "AveragesTwice": r"is off by .* of what training moves",
    "WithoutOneAxis": r"part-of-the-batch|is off by .* of what training moves",
    "WrongRows": r"part-of-the-batch|is off by .* of what training moves",
    "TargetsNotShifted": r"is off by .* of what training moves|the loss of step 1",
    "HalfDealt": r"part-of-the-batch|failed|is off by|waits?|came for a receive of",
    "FrozenStem": r"is off by .* of what training moves",
    "PoorMesh": r"late",
    "OneRank": r"does-not-fit",
    "OraclesAnswer": r"breaks-a-rule|does-not-fit",
    "OraclesLosses": r"breaks-a-rule|does-not-fit",
    "FewerSteps": r"breaks-a-rule",
    "HiddenStates": r"breaks-a-rule",
    "SleepsLess": r"breaks-a-rule",
    "SkipsBlocks": r"breaks-a-rule",
    "Bfloat16": r"is off by .* of what training moves",
    "OtherRules": r"does-not-fit",
    "OnTheQuiet": r"late",
}
CASES = [
    pytest.param(exercise, name, id=f"{exercise.name}:{name}", marks=pytest.mark.long)
    for exercise in EXERCISES
    for name in WRONG
]

pytestmark = pytest.mark.xdist_group("exercises")


@pytest.mark.parametrize(("exercise", "name"), CASES)
def test_a_planted_answer_is_refused(exercise, name):
    verdict = judged(exercise, handed_in(name))
    assert verdict.status == "not yet", verdict
    assert re.search(SAID[name], f"{verdict.mistake} {verdict.message} {verdict.evidence}"), verdict


def test_every_planted_answer_has_its_sentence():
    assert set(SAID) == set(WRONG)
