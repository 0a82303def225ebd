"""Ranks over nodes: two agents on this machine stand for two machines, and all goes the way between machines."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from local_nodes import a_long_wait, place_and_sum, two_local_nodes

from course_lib.cluster import Cluster, RankFailed, RankInterrupted, RankTimeout
from course_lib.cluster.nodes import found, node_clock
from course_lib.cluster.nodes import node as node_module

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """Two nodes on this machine, for the tests of this file."""
    with two_local_nodes(tmp_path_factory.mktemp("nodes")):
        yield


@pytest.fixture
def cluster(two_nodes):
    with Cluster(3, timeout_s=120) as over_two:
        yield over_two


def test_ranks_lie_on_the_nodes_as_torchrun_counts_them(cluster):
    run = cluster.run(place_and_sum)
    assert [run[rank] for rank in range(3)] == [
        (0, 0, 3.0, [0, 0, 3, 2]),
        (0, 1, 3.0, [1, 1, 3, 2]),
        (1, 0, 3.0, [2, 0, 3, 1]),
    ]
    assert [run.text[rank] for rank in range(3)] == [f"rank {rank} sums up to 3\n" for rank in range(3)]


def test_large_values_go_to_and_fro_bit_for_bit(cluster):
    import torch

    given = torch.randn(300_000, dtype=torch.float64).as_strided((100, 1000), (1000, 3))
    given.requires_grad_()

    def doubled(me, value):
        return value * 2, value.stride(), value.requires_grad

    run = cluster.call(doubled, (given,))
    for rank in range(3):
        value, stride, requires_grad = run[rank]
        assert torch.equal(value, given * 2)
        assert (stride, requires_grad) == (given.stride(), True)


def test_a_rank_that_fails_is_told_with_its_node(cluster):
    def fail_on_two(me):
        import torch
        import torch.distributed as dist

        if me.rank == 2:
            raise ValueError("no more")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankFailed) as caught:
        cluster.run(fail_on_two)
    story = str(caught.value)
    assert story.startswith("rank 2 of 3 on node 1 (")
    assert "ValueError: no more" in story
    assert "rank 0 on node 0 (" in story
    assert "waits in all_reduce #1" in story
    assert cluster.run(place_and_sum)[0][2] == 3.0, "the next call works"


def test_a_hang_is_found_and_told(cluster):
    def leave_one_out(me):
        import torch
        import torch.distributed as dist

        if me.rank != 1:
            dist.all_reduce(torch.ones(1))

    with pytest.raises(RankTimeout) as caught:
        cluster.run(leave_one_out)
    assert caught.value.is_deadlock
    assert "Rank 1 never called all_reduce #1." in str(caught.value)


def test_an_interrupt_ends_the_call_and_the_next_one_works(cluster, tmp_path):
    wait_long, when_begun = a_long_wait(tmp_path / "begun")
    when_begun(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(RankInterrupted, match="the 3 ranks have been stopped"):
        cluster.run(wait_long)
    assert cluster.run(place_and_sum)[1][2] == 3.0


def test_cells_keep_their_variables_over_a_failure(cluster):
    cluster.cell("kept = rank + 10", show=False)
    cluster.push(given=[1, 2])
    with pytest.raises(RankFailed, match="ZeroDivisionError"):
        cluster.cell("1 / 0 if rank == 1 else None")
    assert [cluster.pull("kept")[rank] for rank in range(3)] == [10, 11, 12]
    assert cluster.cell("given", show=False)[2] == "[1, 2]"


@pytest.mark.long
def test_two_clusters_and_two_notebooks_share_the_nodes(cluster):
    program = (
        "from course_lib.cluster import Cluster\n"
        "def twice(me):\n    return 2 * me.rank\n"
        "if __name__ == '__main__':\n"
        "    with Cluster(2) as cluster:\n        print([cluster.run(twice)[rank] for rank in range(2)])\n"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with Cluster(2, timeout_s=120) as second:
        assert second.run(place_and_sum)[1][:3] == (1, 0, 1.0)
        assert cluster.run(place_and_sum)[1][:3] == (0, 1, 3.0)
    assert other.communicate(timeout=200)[0].splitlines()[-1] == "[0, 2]"


def test_a_function_may_make_the_group_itself(two_nodes):
    def own_group(me):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    with Cluster(2, process_group=False, timeout_s=120) as cluster:
        assert cluster.run(own_group)[1] == 2.0


def test_bytes_between_nodes_are_counted_apart(cluster):
    import torch

    from course_lib.meter import metered

    def two_messages(me, value):
        import torch
        import torch.distributed as dist

        if me.rank == 0:
            dist.send(value, 1)  # within node 0
            dist.send(value, 2)  # to node 1
        else:
            dist.recv(torch.empty_like(value), 0)

    seen = metered(cluster, two_messages, torch.zeros(1000, dtype=torch.float64)).communication
    assert (seen.total_bytes, seen.between_nodes_bytes) == (16_000, 8_000)
    assert seen.nodes == (0, 0, 1)
    assert seen.of(rank=0).between_nodes_bytes == 8_000
    assert "; between nodes 7.81 KiB" in str(seen)


def test_spans_of_a_rank_keep_time_with_the_notebook(cluster, monkeypatch):
    from course_lib.base.clock import now_s

    def span(me):
        from course_lib.meter import Timeline

        timeline = Timeline(me.rank)
        with timeline.span("work"):
            pass
        return timeline.spans[0].start_s

    before_s = now_s()
    run = cluster.run(span)
    after_s = now_s()
    assert all(before_s < run[rank] < after_s for rank in range(3))
    node = found.nodes_here().nodes[1]
    monkeypatch.setattr(node.clock, "behind_s", 1000.0)
    monkeypatch.setattr(node.clock, "take", lambda *_: None)
    with Cluster(2, timeout_s=120) as late:
        run = late.run(span)
    assert run[1] - run[0] > 900, "what was measured at the meeting is what its ranks go by"


def test_ranks_follow_a_clock_that_drifts(cluster, monkeypatch):
    def now(me):
        from course_lib.base.clock import now_s

        return now_s()

    before = cluster.run(now)
    plain = node_clock.clocks_here
    monkeypatch.setattr(node_module, "clocks_here", lambda: replace(plain(), job_s=plain().job_s + 1000))
    after = cluster.run(now)
    assert all(after[rank] - before[rank] > 900 for rank in range(3))
    monkeypatch.undo()
    assert all(abs(cluster.run(now)[rank] - after[rank]) > 900 for rank in range(3)), "and back"


def test_what_holds_up_a_rank_of_another_node_is_read_there(cluster):
    run = cluster.run(lambda me: (me.node, os.getpid()))
    seen = cluster._team._supervisor._threads(range(3))
    assert {process for process, _ in seen} == {(run[rank][0] << 32) + run[rank][1] for rank in range(3)}
    assert all(ran_s >= 0 and stood_s >= 0 for ran_s, stood_s in seen.values())
    pids = {process for process, _ in cluster._team._supervisor._threads([2])}
    assert pids == {(1 << 32) + run[2][1]}, "of those alone that are asked for"


def test_the_link_between_nodes_is_measured(cluster):
    from course_lib.cluster import Links
    from course_lib.meter import link_between_nodes

    link = link_between_nodes(cluster)
    assert re.fullmatch(r"measured between node 0 \(\S+\) and node 1 \(\S+\): latency \S+ .?s, \S+ MB/s", str(link))
    assert link.fit.latency_s > 0
    assert len(link.fit.samples) == 10, "the other end answers"
    with cluster.shaped(links=Links()):
        assert link_between_nodes(cluster) is None, "those ranks are all here"


def test_ranks_of_all_nodes_begin_with_the_same_random_numbers(cluster):
    """As forks of one server do on one machine: a model that is made without a seed is one model."""

    def drawn(me):
        import random

        import numpy as np
        import torch

        return torch.rand(2, dtype=torch.float64).tolist(), random.random(), float(np.random.rand())

    first = cluster.run(drawn)
    assert first[0] == first[1] == first[2]
    assert cluster.run(drawn)[2] == first[0], "and each run begins there"
    with Cluster(1, timeout_s=120) as alone:
        assert alone.run(drawn)[0] == first[0], "in each cluster of this notebook"
