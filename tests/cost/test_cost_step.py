"""The time of a data-parallel step: buckets, overlap, scaling, break-even."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from course_lib.cost import (
    break_even_bandwidth_bytes_per_s,
    bus_factor,
    collective_cost,
    ddp_buckets,
    ddp_step,
    scaling_curve,
)
from course_lib.layouts.link import Link

MIB = 1 << 20


def ring(link: Link):
    return lambda n, size: collective_cost("all_reduce", size, link, num_ranks=n).time_s


# --- buckets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes",
    [
        [10 * MIB] * 7,
        [4, 300, 5 * MIB, 4, 2 * MIB, 26 * MIB, 100, 1 * MIB, 8],
        [MIB - 4, 4, 25 * MIB],
        [12],
        [],
    ],
)
def test_buckets_are_those_of_pytorch(sizes):
    tensors = [torch.empty(size // 4, device="meta") for size in reversed(sizes)]
    if tensors:
        indices, _ = torch.distributed._compute_bucket_assignment_by_size(tensors, [MIB, 25 * MIB])
        expected = tuple(sum(tensors[i].nbytes for i in bucket) for bucket in indices)
    else:
        expected = ()
    assert ddp_buckets(sizes) == expected


def test_limits_of_buckets_can_be_set():
    assert ddp_buckets([8] * 6, bucket_cap_bytes=16, first_bucket_bytes=8) == (8, 16, 16, 8)
    with pytest.raises(ValueError, match="bucket_cap_bytes=0"):
        ddp_buckets([8], bucket_cap_bytes=0)


# --- one step -------------------------------------------------------------------------------------------------------


def step(buckets=(10, 10, 20), *, all_reduce=lambda size: size * 1.0, **changes):
    settings = {"forward_s": 20.0, "backward_s": 40.0, "optimizer_s": 5.0, **changes}
    return ddp_step(buckets, all_reduce_time_s=all_reduce, **settings)


def test_a_bucket_starts_when_it_is_ready_and_the_link_is_free():
    found = step()
    assert [(each.ready_s, each.start_s, each.end_s) for each in found.buckets] == [
        (10, 10, 20),
        (20, 20, 30),
        (40, 40, 60),
    ]
    assert (found.communication_s, found.exposed_s, found.hidden_s) == (40, 20, 20)
    assert found.time_s == 20 + 40 + 20 + 5
    slow = step(all_reduce=lambda size: 3.0 * size)
    assert [(each.start_s, each.end_s) for each in slow.buckets] == [(10, 40), (40, 70), (70, 130)]
    assert slow.exposed_s == 90


def test_one_bucket_hides_nothing_and_more_of_them_hide_more():
    exposed = [step([40 / count] * count).exposed_s for count in (1, 2, 4, 8)]
    assert exposed[0] == 40
    assert all(left > right for left, right in pairwise(exposed))


def test_without_overlap_all_communication_is_exposed():
    assert step(overlap=0.0).exposed_s == step().communication_s
    assert step(overlap=0.5).exposed_s == pytest.approx(30)
    assert step(overlap=1.0).exposed_s == 20


def test_exposure_lies_between_the_last_bucket_and_everything():
    for pace in (0.1, 0.5, 1, 2, 10):
        found = step(all_reduce=lambda size, pace=pace: pace * size)
        last = found.buckets[-1]
        assert last.end_s - last.start_s <= found.exposed_s + 1e-12
        assert found.exposed_s <= found.communication_s + 1e-12


def test_the_moments_of_gradients_can_be_given():
    assert [each.ready_s for each in step(ready_shares=[0.5, 0.75, 1.0]).buckets] == [20, 30, 40]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"overlap": 1.5}, "overlap is 1.5; it is a share from 0 to 1. The nearest is 1"),
        ({"backward_s": -1.0}, "backward_s is -1.0"),
        ({"ready_shares": [0.5, 1.0]}, "one share for each of the 3 buckets"),
        ({"ready_shares": [0.5, 0.2, 1.0]}, "none smaller"),
        ({"buckets": (1, -1)}, "bucket_bytes is -1"),
    ],
)
def test_bad_steps_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        step(**changes)


# --- scaling --------------------------------------------------------------------------------------------------------


def curve(kind: str, link: Link, ranks=(1, 2, 4, 8, 16)):
    return scaling_curve(
        ranks,
        [25 * MIB] * 4,
        forward_s=0.1,
        backward_s=0.2,
        optimizer_s=0.01,
        kind=kind,
        all_reduce_time_s=ring(link),
    )


def test_a_perfect_link_scales_perfectly_but_for_the_optimizer():
    perfect = Link(0.0, math.inf)
    assert [point.speedup for point in curve("weak", perfect)] == pytest.approx([1, 2, 4, 8, 16])
    strong = curve("strong", perfect)
    assert strong[0].speedup == pytest.approx(1)
    assert strong[3].speedup == pytest.approx(0.31 / (0.3 / 8 + 0.01))


def test_one_rank_communicates_nothing():
    point = scaling_curve([1], [5], forward_s=1.0, backward_s=1.0, all_reduce_time_s=lambda n, size: 7.0)[0]
    assert (point.step.communication_s, point.speedup) == (0, 1)


def test_the_speedup_of_a_rank_falls_with_ranks_and_with_worse_links():
    for kind in ("strong", "weak"):
        fast, slow = curve(kind, Link(1e-6, 1e11)), curve(kind, Link(1e-4, 2e9))
        for points in (fast, slow):
            assert all(a.speedup / a.num_ranks >= b.speedup / b.num_ranks for a, b in pairwise(points))
        assert all(a.speedup > b.speedup for a, b in zip(fast[1:], slow[1:], strict=True))
    weak, strong = curve("weak", Link(1e-4, 2e9)), curve("strong", Link(1e-4, 2e9))
    assert weak[-1].speedup > strong[-1].speedup


def test_the_break_even_bandwidth_makes_communication_as_long_as_the_backward_pass():
    buckets, n, latency_s = [25 * MIB] * 4, 8, 1e-5
    bandwidth = break_even_bandwidth_bytes_per_s(buckets, num_ranks=n, backward_s=0.2, latency_s=latency_s)
    took_s = sum(ring(Link(latency_s, bandwidth))(n, size) for size in buckets)
    assert took_s == pytest.approx(0.2)
    no_latency = break_even_bandwidth_bytes_per_s(buckets, num_ranks=n, backward_s=0.2)
    assert no_latency == pytest.approx(bus_factor("all_reduce", n) * sum(buckets) / 0.2)
    assert break_even_bandwidth_bytes_per_s(buckets, num_ranks=1, backward_s=0.2) == 0
    assert math.isinf(break_even_bandwidth_bytes_per_s(buckets, num_ranks=n, backward_s=0.2, latency_s=1.0))


def test_bad_scaling_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'strong'"):
        curve("strongly", Link(0.0, 1.0))
    with pytest.raises(ValueError, match="num_ranks=0"):
        curve("weak", Link(0.0, 1.0), ranks=[0])
    with pytest.raises(ValueError, match="time_of_the_step"):
        scaling_curve([1], [1], forward_s=0, backward_s=0, all_reduce_time_s=ring(Link(0.0, 1.0)))
