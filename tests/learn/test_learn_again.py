"""What only a second call shows, and what a call does to the rank that makes it."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging.judge import by_ranks, by_trial

pytestmark = pytest.mark.xdist_group("cluster")

CASES = [
    Case("two numbers a rank", lambda rank, n: (torch.ones(2),), lambda rank, n: torch.full((2,), float(n))),
    Case("three", lambda rank, n: (torch.ones(3),), lambda rank, n: torch.full((3,), float(n))),
]


def summed(me, x):
    total = x.clone()
    dist.all_reduce(total)
    return total


def keeps_the_first():
    def add(me, x, kept=[]):  # noqa: B006 - the mistake
        kept.append(summed(me, x))
        return kept[0]

    return add


def fails_again():
    def add(me, x, kept=[]):  # noqa: B006 - the mistake
        kept.append(x)
        return summed(me, x + 0 * kept[0])

    return add


def makes_a_group(me, x):
    dist.new_group(list(range(me.world_size)))
    return summed(me, x)


def takes_another_place(me, x):
    total = summed(me, x)
    object.__setattr__(me, "rank", 7)
    return total


def tried(answer, me, x):
    return answer(me, x)


def exercise_of(judge):
    mistake = Mistake("keeps-it", "It keeps what it had.", keeps_the_first())
    return Exercise(name="99.sum", title="", judge=judge, mistakes=(mistake,), hints=("a", "b", "c"))


EXERCISES = (
    exercise_of(by_ranks([2], CASES, timeout_s=5.0)),
    exercise_of(by_trial([2], CASES, tried, timeout_s=5.0)),
)


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (keeps_the_first(), "expected the shape (3,), got (2,)"),
        (fails_again(), "must match the size of tensor"),
    ],
)
def test_what_an_answer_keeps_is_met_by_its_second_call_and_told_as_that(exercise, answer, words):
    verdict = judged(exercise, answer)
    assert (verdict.passed, verdict.mistake) == (False, None)
    assert "a second call in the same process, now with three and before with two numbers" in verdict.message
    assert words in verdict.message
    assert "Something is kept from one call to the next" in verdict.message


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (makes_a_group, "rank 0 has made a process group by new_group and left it there"),
        (takes_another_place, "rank 0 changed `me`"),
    ],
)
def test_what_is_left_on_a_rank_is_told(exercise, answer, words):
    verdict = judged(exercise, answer)
    assert (verdict.passed, verdict.mistake) == (False, None)
    assert words in verdict.message
    assert judged(exercise, summed).passed


def test_a_trial_that_makes_groups_may_leave_them():
    def makes_one(answer, me, x):
        dist.new_group(list(range(me.world_size)))
        return answer(me, x)

    assert judged(exercise_of(by_trial([2], CASES, makes_one, makes_groups=True)), summed).passed
