"""The hierarchical all-reduce: PyTorch's own sums, on any nodes and any sizes, with the bytes of the cost model."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Rank, RankFailed
from course_lib.cost import Network, collective_cost, hierarchical_sent_bytes
from course_lib.layouts.link import Link
from course_lib.meter import expect, metered
from course_lib.parallel.collectives import hierarchical_all_reduce

pytestmark = pytest.mark.xdist_group("parallel_collectives")  # one process: its clusters are warm after the first

SHAPES = ((), (1,), (2,), (5,), (7,), (13, 3), (2, 0, 3), (0,), (4, 5, 6))
LAYOUTS = [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 1), (4, 2), (4, 4), (6, 2), (6, 3)]
OPS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}
LINK = Link(1e-6, 1e9)


def numbers(rank: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Whole numbers, so large that float64 holds their sums and float32 would not; other ones on each rank."""
    place = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (place * (2**42 + 12_345) + rank * 2**40 + 1).reshape(shape)


CASES = [(shape, torch.float64, "sum") for shape in SHAPES]
CASES += [((7,), dtype, op) for dtype in (torch.int64, torch.float32) for op in OPS]


def wrong_beside_torch(me: Rank, ranks_per_node: int) -> list:
    wrong = []
    for shape, dtype, op in CASES:
        mine = numbers(me.rank, shape).to(dtype)
        if op == "product" or dtype is torch.float32:
            mine = mine % 3 + 1  # small: no order of adding or multiplying rounds
        theirs, before = mine.clone(), mine.clone()
        dist.all_reduce(theirs, OPS[op])
        got = hierarchical_all_reduce(me, mine, ranks_per_node, op=op)
        if got.dtype != dtype or not torch.equal(got, theirs) or not torch.equal(mine, before):
            wrong.append((shape, dtype, op, "new"))
        same = hierarchical_all_reduce(me, mine, ranks_per_node, op=op, out=mine)
        if same.data_ptr() != mine.data_ptr() or not torch.equal(mine, theirs):
            wrong.append((shape, dtype, op, "in place"))
    return wrong


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("world_size", "ranks_per_node"), LAYOUTS)
def test_sums_are_those_of_torch_on_any_nodes_and_sizes(clusters, world_size, ranks_per_node):
    found = clusters(world_size).call(wrong_beside_torch, (ranks_per_node,))
    assert list(found) == [[]] * world_size


def test_float64_holds_these_sums_exactly():
    total = sum(numbers(rank, (120,)) for rank in range(6))
    whole = [sum(place * (2**42 + 12_345) + rank * 2**40 + 1 for rank in range(6)) for place in range(120)]
    assert [int(value) for value in total] == whole
    assert 2**24 < 2**51 < max(whole) < 2**53  # beyond what float32 holds


def views_and_gradients(me: Rank) -> bool:
    x = (torch.arange(24.0).reshape(4, 6) + me.rank).requires_grad_()
    got = hierarchical_all_reduce(me, x.T, 2)
    total = me.world_size * torch.arange(24.0).reshape(4, 6).T + sum(range(me.world_size))
    return torch.equal(got, total) and not got.requires_grad and x.grad is None


def test_views_are_read_as_they_are(clusters):
    assert all(clusters(4).call(views_and_gradients))


# -- cost -----------------------------------------------------------------------------------------------------


def call_one(me: Rank, num_elements: int, ranks_per_node: int) -> None:
    hierarchical_all_reduce(me, torch.arange(num_elements), ranks_per_node)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("world_size", "ranks_per_node"), LAYOUTS)
def test_every_rank_sends_the_bytes_of_the_cost_model(clusters, world_size, ranks_per_node):
    for num_elements in (0, 1, 5, 31, 240):
        sent = metered(clusters(world_size), call_one, num_elements, ranks_per_node).communication
        model = hierarchical_sent_bytes(num_elements, 8, world_size // ranks_per_node, ranks_per_node)
        matrix = sent.matrix()
        for rank, row in enumerate(matrix):
            node = range(rank // ranks_per_node * ranks_per_node, (rank // ranks_per_node + 1) * ranks_per_node)
            within = sum(row[peer] for peer in node)
            assert (within, sum(row) - within) == model[rank], (num_elements, rank)
            assert sent.sent_bytes(rank) == sum(model[rank])
            assert all(  # across nodes, only to the same place
                not size or peer in node or (peer - rank) % ranks_per_node == 0 for peer, size in enumerate(row)
            )
        if num_elements:
            assert expect(sent, only=["send", "recv"]) == []


@pytest.mark.parametrize(("world_size", "ranks_per_node"), LAYOUTS)
def test_even_sizes_are_those_of_collective_cost(clusters, world_size, ranks_per_node):
    sent = metered(clusters(world_size), call_one, 240, ranks_per_node).communication
    network = Network.nodes(world_size // ranks_per_node, ranks_per_node, intra=LINK, inter=LINK)
    cost = collective_cost("all_reduce", 8 * 240, network, algorithm="hierarchical")
    assert tuple(map(sent.sent_bytes, range(world_size))) == cost.bytes_sent
    assert tuple(map(sent.num_messages, range(world_size))) == cost.messages_sent


def test_nobody_waits_across_nodes_as_often_as_in_a_flat_ring(clusters):
    """Two nodes of three: two messages across for each rank, and ten in a ring of six."""
    calls = metered(clusters(6), call_one, 240, 3).communication.matrix()
    assert all((calls[rank][peer] > 0) == (peer == (rank + 3) % 6 or peer == (rank // 3 * 3 + (rank + 1) % 3))
               for rank in range(6) for peer in range(6))  # fmt: skip


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda me: hierarchical_all_reduce(me, torch.ones(2), 3), "ranks_per_node=3.*ranks, which is 2.*works is 2"),
        (lambda me: hierarchical_all_reduce(me, torch.ones(2), 0), "ranks_per_node=0.*at least 1"),
        (lambda me: hierarchical_all_reduce(me, torch.ones(2), 1.5), "ranks_per_node=1.5.*whole number"),
        (lambda me: hierarchical_all_reduce(me, torch.ones(2), 1, op="mean"), "op='mean' is not known.*Use 'sum'"),
        (lambda me: hierarchical_all_reduce(me, torch.ones(2), 1, out=torch.ones(3)), r"out is \(3,\)"),
        (lambda me: hierarchical_all_reduce(me, torch.ones(4, 2), 2, out=torch.ones(2, 4).T), "not contiguous"),
    ],
)
def test_bad_input_gets_a_sentence(clusters, call, message):
    with pytest.raises(RankFailed, match=f"(?s)ValueError.*{message}") as failed:
        clusters(2).call(call)
    assert "broken" not in str(failed.value), "every rank says it by itself"
