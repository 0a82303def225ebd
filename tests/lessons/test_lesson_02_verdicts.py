"""Lesson 02's judges: what reviews found accepted, refused and told untruly, and right answers of other styles."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_02.right import RIGHT_ANSWERS, ring_the_other_way, tree_by_bits
from hasty_shifts import neighbours, shift_that_forgets_to_wait, shift_that_ignores_the_works

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel import collectives

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- what was accepted -------------------------------------------------------------------------------------------


def ring_of_a_clone(me, tensor):
    return ring_the_other_way(me, tensor.clone())


def ring_and_a_copy_comes_back(me, tensor):
    return ring_the_other_way(me, tensor).clone()


def ring_of_four_at_most(me, tensor):
    """Right for 4 ranks and fewer."""
    n = me.world_size
    parts = tensor.tensor_split(min(n, 4))
    after, before = neighbours(me)
    for step in range(n - 1):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine += arrived
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor


def ring_with_barriers(me, tensor):
    dist.barrier()
    return ring_the_other_way(me, tensor)


def ring_then_forgets_a_message(me, tensor):
    after, before = neighbours(me)
    dist.isend(tensor[:1], after)
    dist.irecv(torch.empty_like(tensor[:1]), before)
    return ring_the_other_way(me, tensor)


def two_halves_of_the_course(me, tensor):
    return tensor.copy_(collectives.all_gather(me, collectives.reduce_scatter(me, tensor)))


def functional(me, tensor):
    from torch.distributed import _functional_collectives as functions

    return tensor.copy_(functions.all_reduce(tensor, "sum", dist.group.WORLD))


def tree_by_a_table(me, tensor):
    table = {2: [(0, 1)], 3: [(0, 1), (0, 2)], 4: [(0, 1), (0, 2), (1, 3)]}
    for source, target in table.get(me.world_size, ()):
        if me.rank == source:
            exchange([send(tensor, target)])
        elif me.rank == target:
            exchange([recv(tensor, source)])
    return tensor


def tree_of_a_clone(me, tensor):
    return tree_by_bits(me, tensor.clone())


def tree_with_a_barrier_each_round(me, tensor):
    reach = 1
    while reach < me.world_size:
        if me.rank < reach and me.rank + reach < me.world_size:
            exchange([send(tensor, me.rank + reach)])
        elif reach <= me.rank < 2 * reach:
            exchange([recv(tensor, me.rank - reach)])
        dist.barrier()
        reach *= 2
    return tensor


def tree_in_two_messages(me, tensor):
    for half in tensor.tensor_split(2):
        tree_by_bits(me, half.contiguous()) if me.rank == 0 else half.copy_(tree_by_bits(me, half.clone()))
    return tensor


def tree_that_writes_to_the_root(me, tensor):
    tree_by_bits(me, tensor)
    return tensor.add_(0 if me.rank else 1).sub_(0 if me.rank else 1) if me.rank else tensor.clone()


def tree_and_gradients_off(me, tensor):
    torch.set_grad_enabled(False)
    return tree_by_bits(me, tensor)


def shift_over_its_own(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    exchange([send(mine, after), recv(theirs, before)])
    return mine.copy_(theirs)


def shift_in_place_of_mine(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    exchange([send(mine, after), recv(theirs, before)])
    mine.zero_()
    return theirs


def shift_for_four(me, mine):
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % min(4, me.world_size)), recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def shift_of_whole_numbers(me, mine):
    theirs = torch.empty(mine.shape, dtype=torch.int64)
    after, before = neighbours(me)
    exchange([send(mine, after), recv(theirs, before)])
    return theirs


def shift_without_waiting_to_be_taken(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    dist.isend(mine, after)
    dist.recv(theirs, before)
    return theirs


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("02.ring", ring_of_a_clone, "the tensor that was handed in is to hold the same"),
        ("02.ring", ring_and_a_copy_comes_back, "what came back is a copy"),
        ("02.ring", ring_of_four_at_most, "IndexError"),
        ("02.ring", ring_with_barriers, "besides the messages, 1 barrier (line"),
        ("02.ring", ring_then_forgets_a_message, "never waited for it"),
        ("02.ring", two_halves_of_the_course, "reduce_scatter"),
        ("02.ring", functional, "called all_reduce"),
        ("02.tree", tree_by_a_table, "rank 1 of 5"),
        ("02.tree", tree_of_a_clone, "what came back is a copy"),
        ("02.tree", tree_with_a_barrier_each_round, "besides the messages, 1 barrier (line"),
        ("02.tree", tree_in_two_messages, "the tensor went in 2 messages"),
        ("02.tree", tree_that_writes_to_the_root, "what came back is a copy"),
        ("02.tree", tree_and_gradients_off, "left something behind"),
        ("02.shift", shift_over_its_own, "has changed"),
        ("02.shift", shift_in_place_of_mine, "has changed"),
        ("02.shift", shift_for_four, "5 ranks"),
        ("02.shift", shift_of_whole_numbers, "expected the type torch.float32, got torch.int64"),
        ("02.shift", shift_without_waiting_to_be_taken, "wait"),
    ],
)
def test_what_was_accepted_is_refused_and_told(name, answer, words):
    seen = verdict(name, answer)
    assert not seen.passed
    assert words in f"{seen.message} {seen.evidence} {seen.details}", seen


# -- what was poisoned -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [shift_that_forgets_to_wait, shift_that_ignores_the_works])
def test_a_forgotten_wait_spoils_nothing_that_comes_after(leaves):
    assert not verdict("02.shift", leaves).passed
    for name, answers in RIGHT_ANSWERS.items():
        seen = verdict(name, answers[0])
        assert seen.passed, seen
