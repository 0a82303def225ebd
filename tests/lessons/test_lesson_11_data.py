"""The judge of 11.data: its oracle agrees with the library, which is the planner's own term, and with one by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from answers.lesson_11.right.data import ANSWERS

from course_lib.learn.exercises.lesson_11.data import JOBS, by_the_calls
from course_lib.learn.exercises.lesson_11.data.wrong_answers import MISTAKES
from course_lib.plan.estimate.data_sizes import waits_s
from course_lib.plan.estimate.links import Group


def drawn(draw: random.Random, sharding: int):
    """Sizes that the check does not try."""
    group = Group(2 ** draw.randrange(1, 9), 1e9 * draw.uniform(1, 300), 1e11, 1e-5, 1e-5 * draw.random(), 2.0)
    return replace(
        JOBS[0][1],
        sharding=sharding,
        group=group,
        numbers=1e9 * draw.random(),
        gradient_bytes=draw.choice((2, 4)),
        buckets=draw.uniform(1, 90),
        calls=draw.randrange(1, 99),
        gathers=draw.choice((2, 3)),
        micro_batches=draw.uniform(1, 64),
        ahead=draw.random() < 0.5,
        computing_s=draw.random(),
    )


@pytest.mark.parametrize("answer", [waits_s, *ANSWERS], ids=lambda answer: answer.__name__)
def test_right_answers_are_right_in_jobs_that_the_check_does_not_try(answer):
    draw = random.Random(0)
    for number in range(60):
        sizes, hidden = drawn(draw, (0, 1, 3)[number % 3]), draw.random()
        assert float(answer(sizes, hidden)) == pytest.approx(by_the_calls(sizes, hidden), rel=1e-9)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_every_mistake_is_wrong_and_another_one_than_all_others(mistake):
    found = [mistake.example(*job[1:]) for job in JOBS]
    assert any(abs(a - by_the_calls(*job[1:])) > 1e-4 for a, job in zip(found, JOBS, strict=True))
    for other in MISTAKES:
        if other is not mistake:
            theirs = [other.example(*job[1:]) for job in JOBS]
            assert any(abs(a - b) > 1e-4 for a, b in zip(found, theirs, strict=True)), other.name


def test_two_calls_and_what_hides_by_hand():
    """Two ranks at 1 GB/s without starts: half of each buffer passes. 4 GB of gradients, 2 GB of weights."""
    group = Group(2, 1e9, 1e9, 0.0)
    sizes = replace(JOBS[0][1], group=group, numbers=1e9, gradient_bytes=4, buckets=1.0, computing_s=3.0)
    assert by_the_calls(replace(sizes, sharding=0), 0.5) == pytest.approx(4.0 - 0.5 * 2.0)
    assert by_the_calls(replace(sizes, sharding=1), 0.5) == pytest.approx(2.0 + 1.0 - 0.5 * 2.0)
    three = replace(sizes, sharding=3, gathers=2, calls=5, micro_batches=2.0, ahead=True)
    assert by_the_calls(three, 0.25) == pytest.approx(2 * (2.0 + 2 * 1.0) - 0.25 * 6.0)
    assert by_the_calls(replace(three, ahead=False), 0.25) == pytest.approx(8.0 - 0.25 * 4.0)
