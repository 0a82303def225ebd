"""The judge of 10.ring: its oracle is PyTorch's attention, its limits are the course's own, and it sees what runs."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from course_lib.layouts import DocumentCut
from course_lib.learn.exercises.lesson_10.call_reports import near
from course_lib.learn.exercises.lesson_10.ring import RING_STEPS
from course_lib.learn.exercises.lesson_10.ring.cases import NAMES, SITUATIONS, oracle, whole_of
from course_lib.learn.exercises.lesson_10.ring.right import due_in_flight, visible_pairs
from course_lib.learn.exercises.lesson_10.ring.watch import RingWatch

COUNTED = [label for label, one in SITUATIONS.items() if one.is_counted]


@pytest.mark.parametrize("label", SITUATIONS)
def test_what_one_process_gives_is_pytorchs_attention(label):
    one = SITUATIONS[label]
    *given, grad = (x.double() for x in whole_of(label, 2, 0, 0))
    q, k, v = (x.requires_grad_() for x in given)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=one.is_causal, enable_gqa=True)
    if one.is_stacked:
        out = F.scaled_dot_product_attention(out, k, v, is_causal=one.is_causal, enable_gqa=True)
    out.backward(grad)
    found = oracle(label, 2, 0, 0)
    assert not near(out.detach(), found.out, 1e-9)
    for name, x in zip(NAMES, (q, k, v), strict=True):
        if name in one.needs:
            assert not near(x.grad, found.gradients[name], 1e-9)


@pytest.mark.parametrize("label", COUNTED)
@pytest.mark.parametrize("count", [2, 4])
def test_pairs_that_are_enough_are_those_that_the_course_computes(label, count):
    one = SITUATIONS[label]
    owned = one.positions(count)
    cut = DocumentCut([sum(map(len, owned))], owned)
    for place in range(count):
        pairs = [
            pair for owner in range(count) for pair in cut.tile_pairs(place, owner, tile=1024, is_causal=one.is_causal)
        ]
        sizes = [(pair.queries.stop - pair.queries.start) * (pair.keys.stop - pair.keys.start) for pair in pairs]
        assert visible_pairs(one, place, count) == sum(sizes)


def test_each_position_has_one_owner_in_every_situation():
    for one in SITUATIONS.values():
        for number in range(one.num_objects):
            owned = one.positions(4, number)
            assert sorted(position for own in owned for position in own) == list(range(sum(map(len, owned))))


def test_a_product_is_counted_however_it_is_written_and_a_scale_is_not():
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    counts = []
    for product in (lambda: a @ b, lambda: (a.unsqueeze(2) * b).sum(1), lambda: torch.einsum("ij,jk->ik", a, b)):
        with RingWatch() as watch:
            product()
        counts.append(watch.multiplications)
    with RingWatch() as watch:
        a * 2 * a
    assert counts == [24, 24, 24]
    assert watch.multiplications == 0


def test_the_largest_tensor_is_one_that_was_made_and_no_view():
    small = torch.ones(2, 3)
    with RingWatch() as watch:
        small.expand(100, 2, 3)
        torch.zeros(5, 5)
    assert watch.largest == 25


def test_the_first_product_of_each_block_is_found():
    a = torch.ones(2, 2)
    with RingWatch(lambda: (len(done), 0)) as watch:
        done: list[int] = []
        for _ in range(3):
            a @ a
            a @ a
            done.append(1)
    assert [seen.arriving_bytes for seen in watch.firsts(3)] == [0, 1, 2]


def test_what_can_be_in_flight_at_each_block_of_four():
    assert [due_in_flight(step, 4, is_backward=False) for step in range(4)] == [1, 1, 1, 0]
    assert [due_in_flight(step, 4, is_backward=True) for step in range(4)] == [1, 1, 2, 1]
    assert [due_in_flight(step, 2, is_backward=True) for step in range(2)] == [1, 0]


def test_each_step_looks_at_all_that_the_one_before_it_looks_at():
    kinds = [type(step.judge.cases[0].expected(0, step.judge.world_sizes[0])) for step in RING_STEPS]
    assert all(issubclass(later, earlier) for earlier, later in itertools.pairwise(kinds))
    names = [{mistake.name for mistake in step.mistakes} for step in RING_STEPS]
    assert all(earlier < later for earlier, later in itertools.pairwise(names))
