"""The judge of 12.hierarchical against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_12.wrong.hierarchical import gathered, reduced, row_of, shaped

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_12.hierarchical.cases import KINDS, ranks_per_node, sum_of, tensor_of

pytestmark = pytest.mark.xdist_group("exercises")


@pytest.mark.parametrize("kind", KINDS)
def test_no_sum_can_pass_for_another(kind):
    """Sums over a node, over a local rank and over all differ in every number, and no order of adding rounds."""
    for world_size in (4, 6):
        per_node = ranks_per_node(kind, world_size)
        total, node = sum_of(kind, range(world_size)), sum_of(kind, range(per_node))
        twins = sum_of(kind, list(range(0, world_size, per_node)))
        assert per_node == world_size or not (total == node).any()
        assert per_node == 1 or not (total == twins).any()
        assert torch.equal(total, sum(tensor_of(kind, rank) for rank in reversed(range(world_size))))


def in_a_buffer_of_the_default_type(me, tensor, inside, between):
    n = inside.size()
    row = row_of(tensor, n)
    own = torch.empty(len(row) // n)
    dist.reduce_scatter(own, list(row.chunk(n)), group=inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def between_first(me, tensor, inside, between):
    """Right sums, and the whole tensor over the slow link."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=between)
    own = reduced(row_of(total, inside.size()), inside)
    return shaped(gathered(own, inside), tensor)


def gathers_whole_tensors(me, tensor, inside, between):
    everything = [torch.empty_like(tensor.contiguous()) for _ in range(me.world_size)]
    dist.all_gather(everything, tensor.contiguous())
    return torch.stack(everything).sum(0)


def adds_the_part_twice(me, tensor, inside, between):
    own = reduced(row_of(tensor, inside.size()), inside)
    mine = own.clone()
    dist.all_reduce(own, group=between)
    return shaped(gathered(own + mine, inside), tensor)


def the_largest(me, tensor, inside, between):
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, op=dist.ReduceOp.MAX, group=between)
    return shaped(gathered(own, inside), tensor)


def parts_in_another_order(me, tensor, inside, between):
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside).view(inside.size(), -1).flip(0).flatten(), tensor)


def two_ranks_a_node(me, tensor, inside, between):
    row = row_of(tensor, 2)
    own = row.new_empty(len(row) // 2)
    dist.reduce_scatter(own, list(row.chunk(2)), group=inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def cut_by_the_nodes(me, tensor, inside, between):
    """As many parts as there are nodes: as good as right on two nodes of two."""
    row = row_of(tensor, between.size())
    own = row.new_empty(len(row) // between.size())
    dist.reduce_scatter(own, list(row.chunk(between.size())), group=inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def without_return(me, tensor, inside, between):
    shaped(gathered(reduced(row_of(tensor, inside.size()), inside), inside), tensor)


def as_a_list(me, tensor, inside, between):
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor).tolist()


def returns_what_all_reduce_returns(me, tensor, inside, between):
    own = reduced(row_of(tensor, inside.size()), inside)
    own = dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def padded_in_front(me, tensor, inside, between):
    row = F.pad(tensor.flatten(), (-tensor.numel() % inside.size(), 0))
    own = reduced(row, inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def leaves_groups(me, tensor, inside, between):
    """Right, and a group more with every call."""
    dist.new_group(list(range(me.world_size)))
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def in_two_halves_between(me, tensor, inside, between):
    """Right by the textbook, and only gloo's reduce-scatter sends as much as an all-reduce."""
    own = reduced(row_of(tensor, inside.size()), inside)
    own = gathered(reduced(row_of(own, between.size()), between), between)[: len(own)]
    return shaped(gathered(own, inside), tensor)


def first_node_alone(me, tensor, inside, between):
    """Only the ranks of the first node call the second collective."""
    own = reduced(row_of(tensor, inside.size()), inside)
    if me.rank < inside.size():
        dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def sends_the_part_to_everybody(me, tensor, inside, between):
    """Right sums; the second step gathers the parts of all ranks of all nodes."""
    own = reduced(row_of(tensor, inside.size()), inside)
    parts = gathered(own, dist.group.WORLD).view(between.size(), -1)
    return shaped(parts.sum(0), tensor)


def keeps_the_first(me, tensor, inside, between, seen=[]):  # noqa: B006 - the mistake itself
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    seen.append(shaped(gathered(own, inside), tensor))
    return seen[0]


long = pytest.mark.long


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (in_a_buffer_of_the_default_type, None, "one node, and 125 numbers"),
        (between_first, "all-of-it-between", "sent to other nodes 960 bytes, where 480 will do"),
        (cut_by_the_nodes, None, "one node, and 125 numbers"),
        (leaves_groups, None, "left process groups"),
        pytest.param(sends_the_part_to_everybody, None, "the sum is right, but this rank sent", marks=long),
        pytest.param(gathers_whole_tensors, None, "the sum is right, but this rank sent", marks=long),
        pytest.param(adds_the_part_twice, None, "the sum: at", marks=long),
        pytest.param(the_largest, None, "the sum: at", marks=long),
        pytest.param(parts_in_another_order, None, "the sum: at", marks=long),
        pytest.param(two_ranks_a_node, None, "on 4 ranks", marks=long),
        pytest.param(without_return, None, "nothing came back", marks=long),
        pytest.param(as_a_list, None, "the sum:", marks=long),
        pytest.param(returns_what_all_reduce_returns, None, "NoneType", marks=long),
        pytest.param(padded_in_front, None, "two nodes and 7 numbers", marks=long),
        pytest.param(first_node_alone, None, "can never finish", marks=long),
        pytest.param(keeps_the_first, None, "", marks=long),
    ],
)
def test_wrong_answers_are_turned_away(answer, mistake, words):
    seen = judged(exercises.exercise("12.hierarchical"), answer)
    assert seen.status in ("not yet", "raised"), seen
    assert seen.mistake == mistake, seen
    assert words in f"{seen.message} {seen.evidence}", seen


@pytest.mark.long
def test_a_reduce_scatter_between_nodes_counts_as_its_algorithm_sends():
    assert judged(exercises.exercise("12.hierarchical"), in_two_halves_between).passed
