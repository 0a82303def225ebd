"""Lesson 02's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checking import judged
from course_lib.parallel import collectives

pytestmark = pytest.mark.xdist_group("exercises")


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def ring_the_other_way(me, tensor):
    """Right: against the clock, beginning with another part, into a new tensor."""
    n, total = me.world_size, tensor.clone()
    parts = total.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(me.rank + step + 2) % n]
        arrived = torch.empty_like(mine)
        exchange([recv(arrived, (me.rank + 1) % n), send(parts[(me.rank + step + 1) % n], (me.rank - 1) % n)])
        mine += arrived
    for step in range(n - 1):
        exchange(
            [
                send(parts[(me.rank + step) % n], (me.rank - 1) % n),
                recv(parts[(me.rank + step + 1) % n], (me.rank + 1) % n),
            ]
        )
    return total


def tree_of_halves(me, tensor):
    """Right: the root sends to the middle first, then each half has a root of its own."""
    start, end = 0, me.world_size
    while end - start > 1:
        middle = start + (end - start + 1) // 2
        if me.rank == start:
            exchange([send(tensor, middle)])
        elif me.rank == middle:
            exchange([recv(tensor, start)])
        start, end = (start, middle) if me.rank < middle else (middle, end)
    return tensor


def shift_taking_turns(me, mine):
    """Right, if slowly: rank 0 receives first, and so breaks the circle."""
    theirs, n = torch.empty_like(mine), me.world_size
    first, then = send(mine, (me.rank + 1) % n), recv(theirs, (me.rank - 1) % n)
    for message in (then, first) if me.rank == 0 else (first, then):
        exchange([message])
    return theirs


@pytest.mark.parametrize(
    ("name", "answer"),
    [("02.ring", ring_the_other_way), ("02.tree", tree_of_halves), ("02.shift", shift_taking_turns)],
)
def test_another_right_answer_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


def doubled(me, tensor):
    """Everything right, and then once more for nothing."""
    total = ring_the_other_way(me, tensor)
    ring_the_other_way(me, tensor)
    return total


def everything_to_everybody(me, tensor):
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    rooms = [torch.empty_like(tensor) for _ in others]
    messages = [send(tensor, rank) for rank in others]
    exchange([*messages, *(recv(room, rank) for room, rank in zip(rooms, others, strict=True))])
    return tensor + sum(rooms)


def in_half_precision(me, tensor):
    """Sends half of the bytes, and rounds."""
    return ring_the_other_way(me, tensor.int()).long()


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (everything_to_everybody, "gathers-everything", "2 times"),
        (in_half_precision, "moves-too-little", "0.5 times"),
        (doubled, None, "times"),
        (lambda me, tensor: collectives.all_reduce(me, tensor, algorithm="tree"), "forbidden", "all_reduce"),
    ],
)
def test_fakes_that_give_the_right_sum_are_turned_away_by_cost(answer, mistake, words):
    seen = verdict("02.ring", answer)
    assert not seen.passed
    assert mistake == "forbidden" or seen.mistake == mistake, seen
    assert words in f"{seen.evidence} {seen.message}"


def test_a_wrong_number_is_shown_where_no_mistake_fits():
    seen = verdict("02.tree", lambda me, tensor: torch.full((6,), 7))
    assert (seen.status, seen.mistake) == ("not yet", None)
    assert "six numbers, rank 0 of 4" in seen.message


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("sent-twice", "the tensor was sent 6 times; every rank but the first needs it once: 3 times"),
        ("star", "it took 3 rounds"),
        ("chain", "it took 3 rounds"),
    ],
)
def test_the_evidence_counts_what_a_broadcast_sent(mistake, words):
    example = next(one.example for one in exercises.exercise("02.tree").mistakes if one.name == mistake)
    assert words in verdict("02.tree", example).evidence
