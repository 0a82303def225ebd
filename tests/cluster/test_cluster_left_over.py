"""What a call leaves on its ranks: it is named, and the next call finds nothing of it."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Cluster, NotSendable, RankFailed
from course_lib.cluster.api import magic, shared
from course_lib.cluster.process.processes import RankProcess

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]


@pytest.fixture(scope="module")
def ranks():
    with Cluster(3, timeout_s=20) as cluster:
        yield cluster


def right(me):
    """Needs everything that a call may spoil: both kinds of communication, gradients, the default dtype."""
    total, ring = torch.full((3,), float(me.rank)), torch.zeros(3)
    dist.all_reduce(total)
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    operations = [
        dist.P2POp(dist.isend, torch.full((3,), float(me.rank)), after),
        dist.P2POp(dist.irecv, ring, before),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    pair = dist.new_group([0, me.world_size - 1])
    if me.rank in (0, me.world_size - 1):
        dist.broadcast(total, 0, group=pair)
    return total.tolist(), ring.tolist(), (torch.ones(1, requires_grad=True) * 2).requires_grad


def is_right(cluster) -> bool:
    n = cluster.world_size
    run = cluster.run(right)
    return run.leaks == () and list(run) == [
        ([n * (n - 1) / 2] * 3, [float((rank - 1) % n)] * 3, True) for rank in range(n)
    ]


def pids(cluster) -> list[int]:
    return list(cluster.run(lambda me: os.getpid()))


# -- work under way ---------------------------------------------------------------------------------------------


def forgets_both_waits(me):
    theirs = torch.zeros(4)
    dist.isend(torch.ones(4), (me.rank + 1) % me.world_size)
    dist.irecv(theirs, (me.rank - 1) % me.world_size)


def forgets_a_third_receive(me):
    received = [torch.zeros(1) for _ in range(3)]
    if me.rank == 1:
        works = [dist.irecv(tensor, 0) for tensor in received]
        works[0].wait()
        works[1].wait()
    if me.rank == 0:
        for number in range(3):
            dist.send(torch.full((1,), float(number)), 1)


def leaves_an_all_reduce(me):
    if me.rank == 0:
        dist.all_reduce(torch.ones(1), async_op=True)


def calls_once_more_for_nothing(me):
    if me.rank == 0:
        dist.all_reduce(torch.empty(0))  # nothing to send: it ends at once, and the counts of the ranks differ


def makes_a_group_alone(me):
    if me.rank != 1:
        dist.new_group([0, 2])


def ends_a_group_alone(me):
    group = dist.new_group([0, 2])
    if me.rank == 2:
        dist.destroy_process_group(group)


def catches_a_failed_wait(me):
    if me.rank == 0:
        from datetime import timedelta

        work = dist.irecv(torch.zeros(1), 1)
        try:
            work.wait(timedelta(milliseconds=20))
        except RuntimeError:
            return "went on"
    return None


def leaves_a_thread(me):
    if me.rank == 2:
        threading.Thread(target=lambda: time.sleep(60), name="a sleeper", daemon=True).start()


@pytest.mark.first_cases(5)
@pytest.mark.parametrize(
    ("function", "line"),
    [
        (forgets_both_waits, r"ranks 0, 1, 2 started irecv #1 on line {3} \({here}, in .*\) and never waited"),
        (forgets_a_third_receive, r"rank 1 started irecv #3 on line {3} \({here}, in .*\) and never waited for it"),
        (leaves_an_all_reduce, r"rank 0 started all_reduce #1 on line {2} \({here}, in .*\), which never ended"),
        (calls_once_more_for_nothing, "made different numbers of collective calls: rank 0 1, rank 1 0, rank 2 0"),
        (makes_a_group_alone, "ranks 0, 2 called new_group and rank 1 did not: every rank must call it"),
        (ends_a_group_alone, "the group of ranks 0, 2 is there on rank 0 only"),
        (catches_a_failed_wait, r"rank 0 went on after irecv #1 on line {4} \(.*\) had failed"),
        (leaves_a_thread, "rank 2 left its thread 'a sleeper' running"),
    ],
)
def test_what_is_left_is_named_and_the_next_call_is_right(ranks, capsys, function, line):
    before = pids(ranks)
    run = ranks.run(function)
    for number in (2, 3, 4):
        line = line.replace(f"{{{number}}}", str(function.__code__.co_firstlineno + number))
    out = capsys.readouterr().out
    assert "Left over from this call:\n" in out
    assert out.rstrip().endswith("New ranks replace these, so the next call finds nothing of it.")
    assert re.search(line.replace("{here}", "test_cluster_left_over.py"), "\n".join(run.leaks)), run.leaks
    assert is_right(ranks)
    assert not set(before) & set(pids(ranks))


def test_a_run_and_its_table_tell_what_was_left(ranks):
    run = ranks.call(makes_a_group_alone, show=False)
    assert "Left over from this call:\n  ranks 0, 2 called new_group" in repr(run)
    assert "ranks 0, 2 called new_group" in run._repr_html_()
    assert is_right(ranks)


def awaited(me):
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    work.wait()  # twice is as good as once


def ends_by_itself(me):
    dist.all_reduce(torch.ones(1), async_op=True)  # by all ranks, so that it ends


def sends_without_waiting(me):
    if me.rank == 0:
        me_too = dist.isend(torch.ones(2), 1)
        dist.barrier()
        return me_too.is_completed()
    if me.rank == 1:
        dist.recv(torch.zeros(2), 0)
    dist.barrier()
    return None


def polls(me):
    work = dist.all_reduce(torch.ones(1), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)


def by_a_future(me):
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()


def from_anyone(me):
    if me.rank == 0:
        return sorted(dist.recv(torch.zeros(1)) for _ in range(me.world_size - 1))
    return dist.send(torch.ones(1), 0)


def trains_by_ddp(me):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()


def functional(me):
    import torch.distributed._functional_collectives as functional

    return functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD).sum().item()


def groups_of_all(me):
    for ranks in ([0, 1], [1, 2], [0, 2]):
        group = dist.new_group(ranks)
        if me.rank in ranks:
            dist.all_reduce(torch.ones(1), group=group)


def a_group_of_its_members_alone(me):
    if me.rank != 1:
        dist.all_reduce(torch.ones(1), group=dist.new_group([0, 2], use_local_synchronization=True))


def tells_many(me):
    for _ in range(300):
        dist.all_reduce(torch.ones(1), async_op=True)
    dist.barrier()


@pytest.mark.parametrize(
    "function",
    [
        awaited,
        ends_by_itself,
        sends_without_waiting,
        polls,
        by_a_future,
        from_anyone,
        trains_by_ddp,
        functional,
        groups_of_all,
        a_group_of_its_members_alone,
        tells_many,
    ],
)
def test_what_leaves_nothing_is_not_accused_and_keeps_its_ranks(ranks, function):
    before = pids(ranks)
    assert ranks.run(function).leaks == ()
    assert is_right(ranks)
    assert pids(ranks) == before


def test_what_is_left_beside_a_result_that_cannot_be_read_is_cleared_too(ranks):
    class OnlyThere:
        def __reduce__(self):
            return int, ("no number",)

    def both(me):
        leaves_an_all_reduce(me)
        return OnlyThere()

    with pytest.raises(NotSendable):
        ranks.run(both)
    assert is_right(ranks)


def test_another_default_group_is_replaced(ranks):
    def swap(me):
        dist.destroy_process_group()
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)

    ranks.run(swap)
    assert is_right(ranks)


def test_a_call_that_fails_leaves_nothing_either(ranks):
    def fail(me):
        forgets_both_waits(me)
        raise ValueError("slip")

    with pytest.raises(RankFailed, match="slip"):
        ranks.run(fail)
    assert is_right(ranks)


# -- cells ------------------------------------------------------------------------------------------------------


def test_cells_lose_open_works_and_keep_their_variables():
    with Cluster(2, timeout_s=20) as cluster:
        cluster.cell("kept = rank + 5", show=False)
        run = cluster.cell("work = dist.irecv(torch.zeros(1), 1 - rank)", show=False)
        assert run.leaks[0] == "ranks 0, 1 started irecv #1 on line 1 (cell) and never waited for it"
        assert (
            run.leaks[-1]
            == "The ranks kept their variables and made a new process group, so the next call finds nothing of it."
        )
        assert list(cluster.pull("kept")) == [5, 6]
        run = cluster.cell("if rank == 0: work = dist.all_reduce(torch.ones(1), async_op=True)", show=False)
        assert "rank 0 started all_reduce #1 on line 1 (cell), which never ended" in run.leaks
        assert is_right(cluster)
        assert list(cluster.pull("kept")) == [5, 6]


def test_the_magic_shows_what_a_cell_has_left(monkeypatch, capsys):
    monkeypatch.setattr(magic, "_world_size", 2)
    magic.ranks("", "work = dist.irecv(torch.zeros(1), 1 - rank)\n'shown'")
    out = capsys.readouterr().out
    assert out.startswith(
        "rank 0 | 'shown'\nrank 1 | 'shown'\nLeft over from this call:\n  ranks 0, 1 started irecv #1"
    )
    for cluster in shared._clusters.values():
        cluster.close()


def test_groups_of_cells_last():
    with Cluster(3, timeout_s=20) as cluster:
        cluster.cell("pair = dist.new_group([0, 2])", show=False)
        run = cluster.cell("x = torch.ones(1)\nif rank != 1: dist.all_reduce(x, group=pair)\nx.item()", show=False)
        assert (list(run), run.leaks) == (["2.0", "1.0", "2.0"], ())


# -- ending ranks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_while_ranks_are_ended_costs_one_call(monkeypatch, moment):
    cluster = Cluster(2, timeout_s=20)
    old = pids(cluster)
    plain, calls = RankProcess.wait, []

    def interrupted(process, timeout_s):
        calls.append(process)
        if moment == "after":
            plain(process, timeout_s)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return plain(process, timeout_s)

    team = cluster._team
    with monkeypatch.context() as patch:
        patch.setattr(RankProcess, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.run(lambda me: 1 / 0)
    assert is_right(cluster)
    team.end()  # what was interrupted can be finished, and repeated
    team.end()
    assert not set(old) & set(pids(cluster))
    cluster.close()
    cluster.close()
