"""The judge of 11.step: its oracle agrees with the library and with a step counted by hand."""

from __future__ import annotations

import random

import pytest
from answers.lesson_11.right.steps import ALL

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute, layout_step_s
from course_lib.layouts.link import Link
from course_lib.learn.exercises.lesson_11.step import JOBS, STEP, by_the_clock
from course_lib.learn.exercises.lesson_11.step.wrong_answers import MISTAKES

WORK = StepCompute(layers=4, forward_s=0.3, activation_bytes=12e6, gradient_bytes=24e6)
NODES = NodeShape(2, within=Link(0.001, 100e6), between=Link(0.002, 10e6))


def test_a_pipeline_is_timed_as_by_hand():
    # Two stages of two layers on one node, three micro-batches: 0.1 s forward a layer, 4 MB between stages.
    slot_s = 2 * 3 * 0.1 + 2 * (0.001 + 0.04)
    assert layout_step_s(WORK, Cut(pp=2, micro_batches=3), NODES) == pytest.approx(4 * slot_s)


def test_sums_and_gradients_are_timed_as_by_hand():
    # tp within a node: 6 MB of each half batch, two rounds of 3 MB; dp between nodes: 12 MB, two rounds of 6 MB.
    sum_s = 2 * (0.001 + 0.03)
    slot_s = 4 * (3 * 0.3 / 2 / 2 + 4 * sum_s)
    assert layout_step_s(WORK, Cut(dp=2, tp=2), NODES) == pytest.approx(slot_s + 2 * (0.002 + 0.6))


@pytest.mark.parametrize(("buckets", "waits_s"), [(1, 0.8), (2, 0.4), (4, 0.2)])
def test_of_buckets_that_hide_the_last_is_waited_for(buckets, waits_s):
    # Backward takes 1.2 s (4 layers, 0.15 s forward each), the gradients 0.8 s.
    link = NodeShape(2, Link(0.0, 30e6), Link())
    assert layout_step_s(WORK, Cut(dp=2, buckets=buckets), link) == pytest.approx(1.8 + waits_s)


def test_a_link_slower_than_backward_is_behind():
    # Backward 1.2 s, the gradients 2.4 s in four buckets: the link begins at 0.3 s and ends at 2.7 s.
    link = NodeShape(2, Link(0.0, 10e6), Link())
    assert layout_step_s(WORK, Cut(dp=2, buckets=4), link) == pytest.approx(0.6 + 2.7)


@pytest.mark.parametrize(("work", "cut", "nodes"), [job[1:] for job in JOBS], ids=[job[0] for job in JOBS])
def test_the_oracle_and_the_library_say_the_same(work, cut, nodes):
    assert by_the_clock(work, cut, nodes) == pytest.approx(layout_step_s(work, cut, nodes), rel=1e-9)


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_in_jobs_that_the_check_does_not_try(answer):
    draw = random.Random(0)
    for _ in range(50):
        pp, dp, tp = (2 ** draw.randrange(3) for _ in range(3))
        cut = Cut(pp, dp, tp, draw.randrange(1, 9), draw.randrange(1, 6))
        work = StepCompute(8, draw.random(), 1e6 * draw.random(), 1e7 * draw.random())
        nodes = NodeShape(2 ** draw.randrange(4), Link(0.001 * draw.random(), 1e8), Link(0.01 * draw.random(), 1e7))
        assert float(answer(work, cut, nodes)) == pytest.approx(by_the_clock(work, cut, nodes), rel=1e-9)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_every_mistake_is_wrong_and_another_one_than_all_others(mistake):
    found = [mistake.example(*job[1:]) for job in JOBS]
    right = [by_the_clock(*job[1:]) for job in JOBS]
    assert any(abs(a / b - 1) > 1e-4 for a, b in zip(found, right, strict=True))
    for other in MISTAKES:
        if other is not mistake:
            theirs = [other.example(*job[1:]) for job in JOBS]
            assert any(abs(a / b - 1) > 1e-4 for a, b in zip(found, theirs, strict=True)), other.name


def test_the_judge_names_where_a_bubble_is_missing():
    def no_bubble(work, cut, nodes):
        slots = cut.micro_batches + cut.pp - 1
        return by_the_clock(work, cut, nodes) * (cut.micro_batches / slots if cut.dp == 1 else 1)

    assert [outcome.case for outcome in STEP.judge(no_bubble, ()).wrong] == [
        "two stages within a node, and six micro-batches",
        "four stages on two nodes",
        "tp within a node, pp between nodes",
        "eight stages",
    ]
