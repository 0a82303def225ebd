"""Lesson 02's judges: what they say of a wrong answer was seen, and nothing else is said."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_02.right import RIGHT_ANSWERS, ring_the_other_way, tree_by_bits
from hasty_shifts import neighbours, shift_that_forgets_to_wait, shift_that_ignores_the_works

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.xdist_group("exercises")


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def shift_into_a_buffer_of_another_type(me, mine):
    theirs = torch.empty(5)
    after, before = neighbours(me)
    exchange([send(mine, after), recv(theirs, before)])
    return theirs


def shift_to_one_rank_for_both(me, mine):
    """Right on 2 ranks; on 3 it waits in a circle, though both halves are under way."""
    theirs = torch.empty_like(mine)
    exchange([send(mine, neighbours(me)[0]), recv(theirs, neighbours(me)[0])])
    return theirs


def shift_past_the_edge(me, mine):
    theirs = torch.empty_like(mine)
    exchange([send(mine, me.rank + 1), recv(theirs, me.rank - 1)])
    return theirs


def shift_twice(me, mine):
    RIGHT_ANSWERS["02.shift"][0](me, mine)
    return RIGHT_ANSWERS["02.shift"][0](me, mine)


def shift_of_nothing(me, mine):
    return mine + 100 * ((me.rank - 1) % me.world_size - me.rank)


def ring_into_float_buffers(me, tensor):
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    after, before = neighbours(me)
    for step in range(n - 1):
        arrived = torch.empty(parts[(me.rank - step - 1) % n].shape)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
    return tensor


def ring_adding_to_the_wrong_part(me, tensor):
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    after, before = neighbours(me)
    for step in range(n - 1):
        mine = parts[(me.rank - step + 1) % n]
        arrived = torch.empty_like(parts[(me.rank - step - 1) % n])
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine[: len(arrived)] += arrived[: len(mine)]
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor


def ring_of_three_steps(me, tensor):
    """One step short with 5 ranks, so that a number is missing."""
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    after, before = neighbours(me)
    for step in range(min(n - 1, 3)):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine += arrived
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor


def ring_in_unfilled_buffers(me, tensor):
    return tensor.fill_(-1)


def ring_that_adds_into_a_new_tensor(me, tensor):
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    after, before = neighbours(me)
    for step in range(n - 1):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine = mine + arrived
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor


def ring_of_a_mean(me, tensor):
    return ring_the_other_way(me, tensor).div_(me.world_size, rounding_mode="floor")


def ring_of_one_more(me, tensor):
    return tensor.add_(1)


def shift_with_two_tags(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    for work in (dist.isend(mine, after, tag=1), dist.irecv(theirs, before, tag=2)):
        work.wait()
    return theirs


def tree_upside_down(me, tensor):
    if me.rank:
        exchange([send(tensor, 0)])
    for other in range(1, me.world_size) if me.rank == 0 else ():
        exchange([recv(tensor, other)])
    return tensor


def tree_that_divides_by_zero(me, tensor):
    return tree_by_bits(me, tensor) if me.world_size != 3 else tensor / (1 // (me.world_size - 3))


def tree_that_sends_to_the_root_too(me, tensor):
    tree_by_bits(me, tensor)
    if me.rank == 1:
        exchange([send(tensor, 0)])
    elif me.rank == 0:
        exchange([recv(tensor, 1)])
    return tensor


def endless(me, tensor):
    while True:
        pass


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words", "never"),
    [
        ("02.shift", shift_that_forgets_to_wait, None, "never waited for it", "expected"),
        ("02.shift", shift_that_ignores_the_works, None, "never waited for it", "expected"),
        ("02.shift", shift_into_a_buffer_of_another_type, None, "shape and dtype agree", "deadlock"),
        ("02.shift", endless, None, "ran on for 3 seconds", "deadlock"),
        ("02.shift", shift_to_one_rank_for_both, None, "deadlock", "one call"),
        ("02.shift", shift_past_the_edge, None, "which does not exist: there are ranks 0 to 1", "tuple index"),
        ("02.shift", shift_twice, None, "rank 0 sent 80 B, 2 times its tensor of 40 B", "everybody"),
        ("02.shift", shift_of_nothing, None, "rank 0 sent nothing", "0 times"),
        ("02.ring", ring_into_float_buffers, None, "shape and dtype agree", "SIGABRT"),
        ("02.ring", ring_adding_to_the_wrong_part, None, "is its number", "deadlock"),
        ("02.ring", ring_of_three_steps, None, "only rank 4's number is in it", "deadlock"),
        ("02.ring", ring_in_unfilled_buffers, None, "no sum of the ranks' numbers gives that", "deadlock"),
        ("02.ring", ring_that_adds_into_a_new_tensor, "one-rank-in-each-part", "into a new tensor", "that you sent"),
        ("02.ring", ring_of_a_mean, None, "the sum divided by 2", "filled"),
        ("02.ring", ring_of_one_more, None, "is not its number 0 alone", "is its number"),
        ("02.shift", shift_with_two_tags, "still-waits", "neither takes the other's", "has begun"),
        ("02.tree", tree_upside_down, None, "six numbers, rank 0 of 2: at [0]: expected 7, got -1", "passes"),
        ("02.tree", tree_that_divides_by_zero, None, "ZeroDivisionError", "past the last"),
        ("02.tree", tree_that_sends_to_the_root_too, None, "the tensor was sent 2 times", "more than once"),
    ],
)
def test_a_message_says_what_was_seen_and_no_more(name, answer, mistake, words, never):
    seen = verdict(name, answer)
    told = f"{seen.message} {seen.evidence} {seen.details}"
    assert (seen.passed, seen.mistake) == (False, mistake), seen
    assert words in told, seen
    assert "timeout_s" not in told, seen
    assert never not in told, seen
    assert not any(file in told for file in ("costs.py", "on_rank.py", "recorder.py", "distributed_c10d.py")), told


def ring_half_by_half(me, tensor):
    n, parts = me.world_size, tensor.tensor_split(me.world_size)
    after, before = neighbours(me)
    for step in range(n - 1):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after)])
        exchange([recv(arrived, before)])
        mine += arrived
    return tensor


def test_the_clinics_slip_in_the_ring_is_called_a_deadlock():
    seen = verdict("02.ring", ring_half_by_half)
    assert seen.mistake == "half-and-half"
    assert "deadlock" in seen.message
    assert "timeout_s" not in f"{seen.evidence} {seen.details}"
