"""04.ddp: what the judge of the build expects, and that the course's own DDP is held to it."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest
import torch

from course_lib.learn import exercises
from course_lib.learn.builds import build_named
from course_lib.learn.exercises.lesson_04.ddp.cases import (
    LEARNING_RATE,
    SITUATIONS,
    STEPS,
    bucket_sizes,
    complete_before,
    oracle,
    rows_of,
)
from course_lib.learn.exercises.lesson_04.ddp.reports import AwkwardReport, ValuesReport
from course_lib.learn.exercises.lesson_04.ddp.right import right
from course_lib.mine.courses import MyDDP

pytestmark = pytest.mark.xdist_group("exercises")


def test_what_is_right_is_what_one_process_finds_on_the_whole_batch():
    model = SITUATIONS["three layers"].model(0)
    for step in range(STEPS):
        model.zero_grad()
        model(torch.cat([rows_of(rank, step) for rank in range(3)])).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= LEARNING_RATE * parameter.grad
    end = oracle("three layers", 3).end
    assert all(torch.allclose(end[name], p, rtol=1e-12) for name, p in model.named_parameters())


def test_ranks_begin_with_other_weights_and_other_buffers():
    first, second = (SITUATIONS["buffers"].model(rank) for rank in range(2))
    assert all(not torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))
    assert not torch.equal(first[0].weight, second[0].weight)


def test_a_bucket_is_filled_from_the_last_parameter_and_ends_with_the_one_that_brings_it_to_its_bytes():
    # from the last: 4 + 48, 12 + 144, 12 + 96 numbers of 8 bytes
    assert bucket_sizes("buckets of 200 bytes") == [8 * (4 + 48), 8 * (12 + 144), 8 * (12 + 96)]
    assert bucket_sizes("buckets of 200 bytes", from_the_front=True) == [8 * 96, 8 * (12 + 144), 8 * (12 + 48), 8 * 4]
    assert bucket_sizes("frozen layers") == [8 * (4 + 48 + 144)]
    assert len(bucket_sizes("two dtypes")) == 2


def test_a_bucket_is_complete_before_the_gradient_after_its_last():
    assert complete_before("a bucket for each layer") == [layer for layer in range(8) for _ in range(2)]
    assert complete_before("buckets of two layers") == [pair for pair in range(4) for _ in range(4)]


def test_a_step_demands_its_own_facts_and_those_of_the_steps_before():
    steps = AwkwardReport.__mro__[:5]
    assert steps[-1] is ValuesReport
    names = [{field.name for field in fields(step)} for step in steps]
    assert all(later > earlier for later, earlier in pairwise(names))
    got = right("three layers", AwkwardReport)(0, 2)
    assert not list(right("three layers", ValuesReport)(0, 2).differing(got))


def test_steps_go_in_the_order_of_the_build():
    listed = [one.name for one in exercises.exercises_of("04") if one.name.startswith("04.ddp_")]
    assert listed == list(build_named("04.ddp").steps)


@pytest.mark.long
def test_the_courses_ddp_hides_as_much_as_a_learners_is_to():
    assert exercises.exercise("04.ddp_overlap").judge(MyDDP, ()).passed
