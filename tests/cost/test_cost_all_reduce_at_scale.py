"""All-reduce from 8 to 16,384 ranks: by hand, beside ``collective_cost``, and what grows."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from course_lib.cost import (
    ALL_REDUCE_WAYS,
    Network,
    all_reduce_at_scale,
    all_reduce_point,
    collective_cost,
    hierarchical_sent_bytes,
    machine_spec,
    scaling_curve,
)
from course_lib.layouts.link import Link

H100 = machine_spec("8x H100")
INTRA, INTER = Link(1e-6, 100e9), Link(1e-5, 10e9)
GB = 1e9


def network(num_nodes: int, per_node: int, ports: int = 1) -> Network:
    return Network.nodes(num_nodes, per_node, intra=INTRA, inter=INTER, ports_per_node=ports)


NETWORKS = {
    "2 x 2": network(2, 2),
    "3 x 5": network(3, 5, ports=2),
    "4 x 4": network(4, 4, ports=4),
    "8 x 1": network(8, 1),
    "one node": Network.uniform(6, INTRA),
    "by pairs": Network.from_matrix([[1e9, 2e9, 3e9], [1e9, 1e9, 5e8], [4e9, 1e9, 1e9]], latency_s=1e-5),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", ["ring", "tree", "halving-doubling", "hierarchical"])
def test_time_and_bytes_are_those_of_the_collective(name, way):
    point = all_reduce_point(way, 1e6, NETWORKS[name])
    cost = collective_cost("all_reduce", 1e6, NETWORKS[name], algorithm=way)
    assert point.time_s == pytest.approx(cost.time_s)
    assert point.latency_s == pytest.approx(collective_cost("all_reduce", 0, NETWORKS[name], algorithm=way).time_s)
    assert point.within_bytes + point.between_bytes >= max(cost.bytes_sent) - 1e-6
    assert max(point.within_bytes, point.between_bytes) <= max(cost.bytes_sent) + 1e-6
    if NETWORKS[name].num_nodes == 1:
        assert point.between_bytes == point.node_bytes == 0


def test_two_nodes_of_two_by_hand():
    """4000 bytes: half of it inside twice, and between nodes a quarter twice, by each of two ranks."""
    for way in ("hierarchical", "hierarchical, doubling"):
        point = all_reduce_point(way, 4000.0, NETWORKS["2 x 2"])
        assert (point.within_bytes, point.between_bytes, point.node_bytes) == (4000, 2000, 4000)
        assert point.num_rounds == 4
        assert point.latency_s == pytest.approx(2 * 1e-6 + 2 * 1e-5)
        assert point.transfer_s == pytest.approx(2 * 2000 / 100e9 + 2 * 2000 / 10e9)  # ranks share the node's port


def test_16384_ranks_by_hand():
    """2048 nodes of 8 with a port for each rank; 1 GB."""
    ring, hierarchical, doubling = (
        all_reduce_point(way, GB, H100.network(16_384)) for way in ("ring", "hierarchical", "hierarchical, doubling")
    )
    intra, inter = H100.intra, H100.inter
    assert ring.num_rounds == 2 * 16_383
    assert ring.latency_s == pytest.approx(2 * 16_383 * inter.latency_s)
    assert ring.transfer_s == pytest.approx(2 * 16_383 / 16_384 * GB / 8 / inter.bandwidth_bytes_per_s)
    inside_s = 2 * 7 / 8 * GB / intra.bandwidth_bytes_per_s
    between_s = 2 * 2047 / 2048 * GB / 8 / inter.bandwidth_bytes_per_s
    for point, between_rounds in ((hierarchical, 2 * 2047), (doubling, 2 * 11)):
        assert point.num_rounds == 2 * 7 + between_rounds
        assert point.latency_s == pytest.approx(14 * intra.latency_s + between_rounds * inter.latency_s)
        assert point.transfer_s == pytest.approx(inside_s + between_s)
        assert point.node_bytes == pytest.approx(2 * 2047 / 2048 * GB)
        assert (point.num_ranks, point.num_nodes) == (16_384, 2048)


def test_what_grows_with_the_ranks_is_latency_alone():
    points = {(point.way, point.num_ranks): point for point in all_reduce_at_scale(GB, H100)}
    sizes = [8 << number for number in range(12)]
    assert {ranks for _, ranks in points} == set(sizes)
    assert sizes[-1] == 16_384
    for ranks in sizes[5:]:
        ring, doubling = points["ring", ranks], points["hierarchical, doubling", ranks]
        before = points["ring", ranks // 2]
        assert ring.latency_s / before.latency_s == pytest.approx(2, rel=0.01)
        assert ring.transfer_s / before.transfer_s == pytest.approx(1, rel=0.01)
        assert doubling.latency_s - points["hierarchical, doubling", ranks // 2].latency_s == pytest.approx(
            2 * H100.inter.latency_s  # one more round there and back
        )
    largest = {way: points[way, 16_384] for way in ALL_REDUCE_WAYS}
    assert largest["ring"].latency_share > 0.95
    assert largest["hierarchical, doubling"].latency_share < 0.05
    assert largest["ring"].time_s > 25 * largest["hierarchical, doubling"].time_s
    assert all(point.transfer_s > 0.9 * 5e-3 for point in largest.values())  # no way is below the transfer


def test_sharing_out_a_batch_stops_to_pay_where_an_all_reduce_takes_longer_than_the_rest():
    """Strong scaling: a step of 10 minutes on one GPU, 1 GB of gradients, nothing hidden."""

    def speedups(way: str) -> list[float]:
        points = scaling_curve(
            [8 << number for number in range(12)],
            [GB],
            forward_s=200.0,
            backward_s=400.0,
            overlap=0.0,
            all_reduce_time_s=lambda n, size_bytes: all_reduce_point(way, size_bytes, H100.network(n)).time_s,
        )
        return [point.speedup for point in points]

    ring, doubling = speedups("ring"), speedups("hierarchical, doubling")
    assert ring[0] == pytest.approx(8, rel=0.01)
    assert 0 < ring.index(max(ring)) < len(ring) - 1
    assert ring[-1] < max(ring)  # the whole machine is slower than a part of it
    assert doubling[-1] == max(doubling) > 4 * ring[-1]
    assert doubling[-1] < 0.9 * 16_384
    assert doubling[-1] < 600 / all_reduce_point("hierarchical, doubling", GB, H100.network(16_384)).transfer_s


def test_nothing_to_send_and_nobody_to_send_to():
    for way in ALL_REDUCE_WAYS:
        empty, alone = (
            all_reduce_point(way, 0.0, network(2, 4)),
            all_reduce_point(way, GB, Network.uniform(1, INTRA)),
        )
        assert (empty.transfer_s, empty.within_bytes, empty.latency_share) == (0, 0, 1)
        assert (alone.time_s, alone.num_rounds, alone.within_bytes, alone.latency_share) == (0, 0, 0, 0)


def test_ranks_begin_with_a_machine_and_fill_whole_ones():
    points = all_reduce_at_scale(GB, machine_spec("72x GB200"), ways=["hierarchical, doubling"])
    assert [point.num_ranks for point in points] == [72 << number for number in range(8)]
    some = all_reduce_at_scale(GB, H100, ranks=[24, 4], ways=["hierarchical"])
    assert [(point.num_ranks, point.num_nodes) for point in some] == [(24, 3), (4, 1)]


def test_a_large_network_needs_no_table_of_all_pairs():
    """16,384 ranks have 268 million pairs; two numbers for each would be 4 GB."""
    tracemalloc.start()
    try:
        for way in ALL_REDUCE_WAYS:
            all_reduce_point(way, GB, H100.network(16_384))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200e6


# --- to the byte ----------------------------------------------------------------------------------------------------


def test_uneven_parts_to_the_byte():
    """10 elements on two nodes of three: parts of 4, 3 and 3, each cut again for the two nodes."""
    sent = hierarchical_sent_bytes(10, 8, 2, 3)
    assert [each.within_bytes // 8 for each in sent] == [20 - 4 - 3, 20 - 3 - 3, 20 - 3 - 4] * 2
    assert [each.between_bytes // 8 for each in sent] == [4, 3, 3] * 2
    three_nodes = hierarchical_sent_bytes(4, 1, 3, 1)  # 2, 1, 1
    assert [each.between_bytes for each in three_nodes] == [8 - 2 - 1, 8 - 1 - 1, 8 - 1 - 2]
    assert hierarchical_sent_bytes(10, 8, 1, 1) == [(0, 0)]
    assert hierarchical_sent_bytes(0, 8, 2, 2) == [(0, 0)] * 4


@pytest.mark.parametrize(("num_nodes", "per_node"), [(2, 2), (3, 4), (1, 6), (5, 1)])
def test_even_parts_are_those_of_the_model(num_nodes, per_node):
    num_elements = 60 * num_nodes * per_node
    sent = hierarchical_sent_bytes(num_elements, 4, num_nodes, per_node)
    point = all_reduce_point("hierarchical", 4.0 * num_elements, network(num_nodes, per_node))
    assert len(sent) == num_nodes * per_node
    for each in sent:
        assert each.within_bytes == pytest.approx(point.within_bytes)
        assert each.between_bytes == pytest.approx(point.between_bytes)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: all_reduce_point("rign", 1.0, NETWORKS["2 x 2"]), "way is 'rign'.*Did you mean 'ring'"),
        (lambda: all_reduce_point("ring", -1.0, NETWORKS["2 x 2"]), "size_bytes is -1.0"),
        (lambda: all_reduce_point("ring", math.inf, NETWORKS["2 x 2"]), "size_bytes is inf"),
        (lambda: all_reduce_at_scale(1.0, H100, ranks=[12]), "devices of one machine.*multiple of 8.*nearest is 16"),
        (lambda: all_reduce_at_scale(1.0, H100, ranks=[0]), "ranks=0 does not work.*is 1"),
        (lambda: all_reduce_at_scale(1.0, H100, ranks=[1 << 21]), "ranks is at most 1,048,576"),
        (lambda: all_reduce_at_scale(1.0, H100, ranks=[8], ways=["star"]), "way is 'star'; it is one of ring"),
        (lambda: hierarchical_sent_bytes(-1, 4, 2, 2), "num_elements=-1"),
        (lambda: hierarchical_sent_bytes(1, 4, 0, 2), "num_nodes=0 does not work.*is 1"),
        (lambda: hierarchical_sent_bytes(1, 4, 2048, 2048), "num_ranks is at most 1,048,576"),
    ],
)
def test_bad_input_is_told_with_the_rule(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
