"""Lesson 02's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
from answers.lesson_02.right import ring_the_other_way

from course_lib.authoring.bench.judging import kept_answers
from course_lib.cluster import exchange, recv, send
from course_lib.cluster.api import shared
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel import collectives

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def doubled(me, tensor):
    """Everything right, and then once more for nothing."""
    ring_the_other_way(me, tensor.clone())
    return ring_the_other_way(me, tensor)


def everything_to_everybody(me, tensor):
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    rooms = [torch.empty_like(tensor) for _ in others]
    messages = [send(tensor, rank) for rank in others]
    exchange([*messages, *(recv(room, rank) for room, rank in zip(rooms, others, strict=True))])
    return tensor.add_(sum(rooms))


def in_half_precision(me, tensor):
    """Sends half of the bytes, and rounds."""
    return tensor.copy_(ring_the_other_way(me, tensor.float()))


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (everything_to_everybody, "gathers-everything", "1.5 times"),
        (in_half_precision, "sends-another-type", "0.5 times"),
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
    seen = verdict("02.tree", lambda me, tensor: torch.full_like(tensor, 7))
    assert (seen.status, seen.mistake) == ("not yet", None)
    assert "six numbers, rank 0 of 2" in seen.message


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("sent-twice", "the tensor was sent 3 times; every rank but the first needs it once: 2 times"),
        ("star", "rounds, one message after the other"),
        ("chain", "rounds, one message after the other"),
    ],
)
def test_the_evidence_counts_what_a_broadcast_sent(mistake, words):
    assert words in verdict("02.tree", kept_answers.examples("02.tree")[mistake]).evidence


def children_of_a_heap(me, tensor):
    """A binary tree: as quick as doubling up to 6 ranks."""
    if me.rank:
        exchange([recv(tensor, (me.rank - 1) // 2)])
    for child in (2 * me.rank + 1, 2 * me.rank + 2):
        if child < me.world_size:
            exchange([send(tensor, child)])
    return tensor


def test_a_tree_that_falls_behind_beyond_six_ranks_is_refused():
    seen = verdict("02.tree", children_of_a_heap)
    assert seen.status == "not yet"
    assert seen.mistake == "two-children"
    assert "on 7 ranks" in seen.evidence
    assert 7 not in _open_world_sizes()


def _open_world_sizes():
    return {world_size for world_size, cluster in shared._clusters.items() if not cluster.is_closed}


def test_seven_ranks_are_tried_where_all_else_is_right_only():
    judge = exercises.exercise("02.tree").judge
    assert not any(one.case.endswith("of 7") for one in judge(lambda me, tensor: tensor).outcomes)


def three_children(me, tensor):
    """On 4 ranks a star, on 5 no more."""
    if me.rank:
        exchange([recv(tensor, (me.rank - 1) // 3)])
    exchange([send(tensor, child) for child in range(3 * me.rank + 1, 3 * me.rank + 4) if child < me.world_size])
    return tensor


def test_a_tree_of_three_children_is_not_told_that_the_root_does_all_the_sending():
    assert verdict("02.tree", three_children).mistake is None


def sums_under_another_name(me, tensor):
    n, parts = me.world_size, list(tensor.tensor_split(me.world_size))
    for step in range(2 * (n - 1)):
        lap, step = divmod(step, n - 1)
        give, take = (me.rank + lap - step) % n, (me.rank + lap - step - 1) % n
        arrived = torch.empty_like(parts[take])
        exchange([send(parts[give], (me.rank + 1) % n), recv(arrived, (me.rank - 1) % n)])
        parts[take] = arrived if lap else parts[take] + arrived
    return tensor


def test_a_ring_whose_sums_never_reach_the_tensor_is_told_by_what_stands_there():
    assert verdict("02.ring", sums_under_another_name).mistake == "sums-in-new-tensors"
