"""What a run on nodes tells, beside its bytes: memory, NCCL's rules, and the flight recorders of a job that hangs."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from local_nodes import two_local_nodes
from torch import nn

from course_lib.cluster import Cluster, black_box, folder_for_ranks
from course_lib.cluster.nodes.found import on_this_machine
from course_lib.meter import MemoryLedger, metered
from course_lib.parallel.sharded import FullySharded

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def on_two_nodes(tmp_path_factory):
    with two_local_nodes(tmp_path_factory.mktemp("nodes")), Cluster(3, timeout_s=120) as cluster:
        yield cluster


def step_in_bytes(me):
    """By label, the largest sum of a step, and what is left after it."""
    torch.manual_seed(me.rank)
    model = FullySharded(me, nn.Sequential(nn.Linear(40, 30), nn.Linear(30, 20)))
    optimizer = torch.optim.Adam(model.parameters())
    with MemoryLedger(model, optimizer) as ledger:
        model(torch.ones(7 + me.rank, 40)).sum().backward()
        optimizer.step()
    return [{entry.label: entry.size_bytes for entry in at.entries} for at in (ledger.peak(), ledger.now())] + [
        ledger.peak().total_bytes
    ]


def test_memory_is_what_it_is_on_one_machine(on_two_nodes):
    on_nodes = list(on_two_nodes.run(step_in_bytes))
    with on_this_machine(), Cluster(3) as here:
        assert not here.is_on_nodes
        assert list(here.run(step_in_bytes)) == on_nodes
    assert len({total for *_, total in on_nodes}) == 3, "a rank of another node tells its own"


def round_the_ring(me, together):
    mine, room = torch.ones(4), torch.empty(4)
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    if together:
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, room, before)])
    else:
        works = [dist.isend(mine, after), dist.irecv(room, before)]
    for work in works:
        work.wait()


def test_nccls_rules_are_held_against_messages_between_nodes(on_two_nodes):
    assert metered(on_two_nodes, round_the_ring, True).communication.nccl_breaches() == ()
    (breach,) = metered(on_two_nodes, round_the_ring, False).communication.nccl_breaches()
    assert breach.rule == "order"
    assert breach.line is not None
    assert breach.line.function == "round_the_ring"


def late_on_the_other_node(me, folder):
    """The only rank of node 1 does not come until the two others have written down what they wait for, and it where
    it is.
    """
    waited_for = [Path(folder, name) for name in ("rank_0", "rank_1", "stack_2.txt")]
    with black_box(me, folder, quiet_s=0.3, frames=False):
        total = torch.ones(1)
        dist.all_reduce(total)
        while me.rank == 2 and not all(map(os.path.exists, waited_for)):
            time.sleep(0.05)
        dist.all_reduce(total)
    return me.node


def test_flight_recorders_of_all_nodes_are_written_where_the_notebook_reads_them(on_two_nodes):
    with folder_for_ranks(on_two_nodes) as folder:
        assert list(on_two_nodes.call(late_on_the_other_node, (folder,), show=False)) == [0, 0, 1]
        dumps = [pickle.loads(Path(folder, f"rank_{rank}").read_bytes()) for rank in range(2)]
        stacks = [Path(folder, f"stack_{rank}.txt").read_text() for rank in range(2)]
        waits_there = Path(folder, "stack_2.txt").read_text()
    for dump in dumps:
        assert dump["pg_config"]["0"]["ranks"] == "[0, 1, 2]"
        last = max(dump["entries"], key=lambda entry: entry["record_id"])
        assert (last["profiling_name"], last["state"] == "completed") == ("gloo:all_reduce", False)
    assert all("late_on_the_other_node" in stack for stack in stacks)
    assert "late_on_the_other_node" in waits_there
