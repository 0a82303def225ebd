"""Ranks that can never go on are found out at once, and the sentence says what was seen."""

from __future__ import annotations

import re
import time

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Cluster, RankError, RankFailed, RankTimeout
from course_lib.cluster.base.failure import Frame
from course_lib.cluster.failures.deadlock import deadlocked_ranks
from course_lib.cluster.failures.rank_status import Accounts, Operation, RankStatus
from course_lib.cluster.failures.report import died, failed_story, status_line
from course_lib.cluster.hooks.pending_ops import PendingOp

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]


@pytest.fixture(scope="module")
def ranks():
    with Cluster(3, timeout_s=60) as cluster:
        yield cluster


def story_of(cluster, function, kind=RankTimeout) -> str:
    with pytest.raises(RankError) as caught:
        cluster.run(function)
    assert type(caught.value) is kind, str(caught.value)
    story = str(caught.value)
    assert "had not finished after" not in story, "it ended at once, not at the limit"
    assert "larger timeout_s" not in story
    assert list(cluster.run(lambda me: (dist.barrier(), me.rank)[1])) == list(range(cluster.world_size))
    return story


def everybody_sends_first(me):
    dist.send(torch.ones(2, 3), (me.rank + 1) % me.world_size)
    dist.recv(torch.ones(2, 3), (me.rank - 1) % me.world_size)


def receives_from_one_that_returns(me):
    if me.rank == 0:
        dist.recv(torch.zeros(4), 1)


def sends_to_one_that_returns(me):
    if me.rank == 0:
        dist.send(torch.zeros(4), 1)


def receives_once_too_often(me):
    if me.rank == 0:
        dist.recv(torch.zeros(4), 1)
        dist.recv(torch.zeros(4), 1)
    if me.rank == 1:
        dist.send(torch.zeros(4), 0)


def receives_under_another_tag(me):
    if me.rank == 0:
        dist.recv(torch.zeros(4), 1, tag=1)
    if me.rank == 1:
        dist.send(torch.zeros(4), 0, tag=2)


def receives_from_anyone(me):
    if me.rank == 0:
        dist.recv(torch.zeros(4))


def receives_in_vain_what_was_let_go(me):
    if me.rank == 1:
        dist.isend(torch.zeros(4), 0)
    dist.barrier()
    if me.rank == 0:
        dist.recv(torch.zeros(4), 1)


def crosses_a_collective_with_a_message(me):
    if me.rank == 0:
        dist.recv(torch.zeros(4), 1)
    dist.all_reduce(torch.zeros(4))
    if me.rank == 1:
        dist.send(torch.zeros(4), 0)


def calls_groups_in_another_order(me):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    if me.rank < 2:
        for group in groups if me.rank else groups[::-1]:
            dist.all_reduce(torch.ones(1), group=group)


def is_missing_in_a_group(me):
    group = dist.new_group([0, 2])
    if me.rank == 0:
        dist.all_reduce(torch.ones(2), group=group)


def is_missing_at_a_monitored_barrier(me):
    if me.rank != 1:
        dist.monitored_barrier()


def is_missing_at_new_group(me):
    if me.rank != 1:
        dist.new_group([0, 1, 2])


def makes_a_group_by_itself_first(me):
    if me.rank != 1:
        dist.new_group([0, 2])
    dist.barrier()  # else this group and the next, of one name, may get in each other's way
    dist.new_group([0, 1, 2])


def makes_groups_in_another_order(me):
    if me.rank != 1:
        dist.new_group([0, 1] if me.rank == 2 else [0, 2])
    dist.new_group([0, 2] if me.rank == 2 else [0, 1])
    dist.new_group([0, 1, 2])


def calls_another_operation(me):
    dist.broadcast(torch.ones(3), 0) if me.rank else dist.all_reduce(torch.ones(3))


def hands_in_another_shape(me):
    dist.all_reduce(torch.ones(3 + me.rank))


def hands_in_another_dtype(me):
    dist.all_reduce(torch.ones(3, dtype=torch.float64 if me.rank == 1 else torch.float32))


def skips_the_backward_of_ddp(me):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    out = model(torch.ones(2, 4)).sum()
    if me.rank:
        out.backward()


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("function", "sentences"),
    [
        (
            everybody_sends_first,
            [
                "rank 0  waits in a send to rank 1 (float32, 2 x 3), at test_cluster_hope.py, line",
                "This is a deadlock: rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for rank 0.",
            ],
        ),
        (
            receives_from_one_that_returns,
            [
                "rank 0  waits in a receive from rank 1 (float32, 4)",
                "Rank 1 returned and never sent this message to rank 0.",
            ],
        ),
        (sends_to_one_that_returns, ["Rank 1 returned and never received this message from rank 0."]),
        (receives_once_too_often, ["Rank 1 returned and never sent this message to rank 0."]),
        (receives_under_another_tag, ["rank 0 waits for rank 1, rank 1 waits for rank 0."]),
        (
            receives_from_anyone,
            ["waits in a receive from anyone (float32, 4)", "No rank can send to rank 0 any more."],
        ),
        (receives_in_vain_what_was_let_go, ["Rank 1 started isend #1 on line", "the message was not sent."]),
        (crosses_a_collective_with_a_message, ["Rank 0 never called all_reduce #1.", "This is a deadlock: "]),
        (calls_groups_in_another_order, ["of the group of ranks 0, 1", "This is a deadlock: rank 0 waits for rank 1"]),
        (
            is_missing_in_a_group,
            ["Rank 2 never called all_reduce #1 of the group of ranks 0, 2.", "rank 2  had returned"],
        ),
        (
            is_missing_at_a_monitored_barrier,
            ["rank 0  waits in monitored_barrier", "Rank 1 never called monitored_barrier."],
        ),
        (is_missing_at_new_group, ["rank 2  waits in new_group", "Rank 1 never called new_group."]),
        (
            makes_a_group_by_itself_first,
            ["rank 1  waits in new_group", "Rank 1 stands in an earlier new_group than those that wait for it."],
        ),
        (makes_groups_in_another_order, ["by new_group, and other ranks make another one"]),
        (calls_another_operation, ["Call #1 does not have the same operation on every rank: all_reduce, broadcast."]),
        (hands_in_another_shape, ["Call #1 does not have the same shape on every rank: 3, 4, 5."]),
        (skips_the_backward_of_ddp, ["Rank 0 never called all_reduce #"]),
    ],
)
def test_a_call_that_nobody_can_end_ends_at_once(ranks, function, sentences):
    story = story_of(ranks, function)
    assert "can never finish" in story
    for sentence in sentences:
        assert sentence in story, story


def sends_past_the_end(me):
    dist.isend(torch.ones(2), me.world_size) if me.rank == 1 else None


def receives_from_nowhere(me):
    if me.rank == 0:
        dist.recv(torch.ones(2), -1)


def sends_past_the_end_in_a_batch(me):
    if me.rank == 0:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), 9)]):
            work.wait()


def sends_to_itself(me):
    if me.rank == 1:
        theirs = torch.ones(2)
        ends = [dist.P2POp(dist.irecv, theirs, 1), dist.P2POp(dist.isend, torch.ones(2), 1)]
        for work in dist.batch_isend_irecv(ends):
            work.wait()


def sends_past_the_end_of_a_group(me):
    group = dist.new_group([0, 2])
    if me.rank == 2:
        dist.send(torch.ones(2), group=group, group_dst=2)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (sends_past_the_end, "rank 1 sends to rank 3, which does not exist: there are ranks 0 to 2"),
        (receives_from_nowhere, "rank 0 receives from rank -1, which does not exist: there are ranks 0 to 2"),
        (sends_past_the_end_in_a_batch, "rank 0 sends to rank 9, which does not exist"),
        (sends_to_itself, "rank 1 receives from itself, and gloo carries no such message; copy the tensor instead"),
        (
            sends_past_the_end_of_a_group,
            "rank 2 sends to place 2 of a group, which does not exist: there are places 0 to 1",
        ),
    ],
)
def test_a_message_to_a_rank_that_is_not_there_is_refused_at_once(ranks, function, sentence):
    story = story_of(ranks, function, RankFailed)
    assert sentence in story
    assert f"in {function.__name__}" in story
    assert "ledger.py" not in story


# What gloo makes of two dtypes is chance: it may hear of it, find a message of another size, or end a process.
STORIES_OF_ANOTHER_DTYPE = (
    "the same dtype on every rank: float32, float64.",
    "bytes came for a receive",
    "in a collective it was sent more than its tensor has room for",
)


def test_another_dtype_is_a_failure_or_found_out(ranks):
    with pytest.raises(RankError) as caught:
        ranks.run(hands_in_another_dtype)
    assert any(story in str(caught.value) for story in STORIES_OF_ANOTHER_DTYPE)


def test_a_cell_on_some_ranks_with_a_collective_ends_at_once():
    with Cluster(2, timeout_s=60) as cluster:
        cluster.cell("kept = rank", show=False)
        with pytest.raises(RankTimeout) as caught:
            cluster.cell("dist.all_reduce(torch.ones(1))", only=[0], show=False)
        assert "rank 1  does not take part in this call" in str(caught.value)
        assert "Rank 1 never called all_reduce #1." in str(caught.value)
        assert list(cluster.pull("kept")) == [0, 1]


def test_an_endless_loop_runs_on_and_waits_for_nothing(ranks):
    def endless(me):
        if me.rank == 1:
            while True:
                pass
        dist.recv(torch.zeros(1), 1)

    with pytest.raises(RankTimeout) as caught:
        ranks.call(endless, timeout_s=2.0)
    line = endless.__code__.co_firstlineno + 2
    assert re.search(rf"rank 1  runs on, at test_cluster_hope.py, line ({line}|{line + 1}), in", str(caught.value))
    assert "had not finished after timeout_s = 2 s" in str(caught.value)
    assert "rank 0  waits in a receive from rank 1 (float32, 1)" in str(caught.value)


def test_slow_ranks_are_left_to_finish(ranks):
    def slow(me):
        if me.rank == 0:
            time.sleep(2.5)
            dist.send(torch.ones(1), 1)
        elif me.rank == 1:
            dist.recv(torch.zeros(1), 0)
            dist.send(torch.ones(1), 2)
        else:
            dist.recv(torch.zeros(1), 1)
        dist.barrier()
        return me.rank

    assert list(ranks.run(slow)) == [0, 1, 2]


def test_a_message_of_another_size_is_named(ranks):
    def mismatch(me):
        if me.rank == 0:
            dist.send(torch.ones(4), 1)
        if me.rank == 1:
            dist.recv(torch.ones(4, dtype=torch.float16), 0)

    story = story_of(ranks, mismatch, kind=RankFailed)
    assert "rank 1 of 3 is gone: a message of 16 bytes came for a receive of 8 bytes" in story


NO_ROOM = "op.preamble.length <= op.nbytes. 8 vs 4"


def test_a_piece_of_a_collective_is_not_told_as_a_message():
    last = Operation("all_gather", 1, "0", False, True, ((2,),), ("float64",))
    stood = RankStatus(1, last, (), state="returned", accounts=Accounts())
    story = failed_story(died(0, -6, 0.0, NO_ROOM), {1: stood}, 2)
    assert "8 bytes" not in story
    assert "in a collective it was sent more than its tensor has room for" in story
    assert "The last call of rank 1 was all_gather #1 (float64, 2). Do all ranks make the same call" in story


def test_a_message_stays_one_where_ranks_have_sent_some():
    last = Operation("all_gather", 1, "0", False, True, ((2,),), ("float64",))
    stood = RankStatus(1, last, (), state="returned", accounts=Accounts(sent={("0", 1, 0, 0): 1}))
    story = failed_story(died(0, -6, 0.0, NO_ROOM), {1: stood}, 2)
    assert "a message of 8 bytes came for a receive of 4 bytes" in story


# -- what is shown of an error ----------------------------------------------------------------------------------


def test_a_recursion_is_told_once(ranks):
    def outer(me):
        def again(n):
            return again(n + 1)

        again(0)

    story = story_of(ranks, outer, kind=RankFailed)
    assert "more times" in story
    assert len(story) < 1500


def test_a_long_message_is_cut_in_the_middle(ranks):
    def shout(me):
        raise ValueError("begin" + "x" * 10_000_000 + "end")

    story = story_of(ranks, shout, kind=RankFailed)
    assert len(story) < 5000
    assert "ValueError: beginxxx" in story
    assert "xxxend" in story
    assert "characters left out" in story


def test_echoes_of_one_cause_share_a_line_and_no_frame_of_torch_follows_the_users():
    def leave(me):
        import os

        if me.rank == 3:
            os._exit(3)
        for _ in range(2):
            dist.all_reduce(torch.ones(1 << 12))

    with Cluster(4, timeout_s=60) as cluster:
        story = story_of(cluster, leave, kind=RankFailed)
    assert story.count("(an echo of rank 3)") == 1, story


def test_the_meter_and_torch_do_not_show_in_a_learners_trace(ranks):
    from course_lib.meter.communication.recorder import Recorder

    def wrong(me, recorder):
        with recorder(me.rank):
            dist.all_reduce("no tensor")

    with pytest.raises(RankFailed) as caught:
        ranks.run(wrong, Recorder)
    trace = str(caught.value).partition("Where the other")[0]
    assert "in wrong" in trace
    for name in ("recorder.py", "comm_hooks.py", "op_tracker.py", "distributed_c10d.py", "c10d_logger.py"):
        assert name not in trace, trace


# -- the arithmetic ---------------------------------------------------------------------------------------------

WAITS = [Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 1, "wait")]


def waiting(rank, *, number=1, counts=1, name="all_reduce", **kwargs):
    operation = Operation(name, number, "0", False, False, ((3,),), ("float32",))
    accounts = Accounts({"0": counts}, {"0": (0, 1, 2)}, recent=(operation,))
    return RankStatus(rank, operation, tuple(WAITS), counts, is_in_wait=True, accounts=accounts, **kwargs)


def running(rank, counts=0, state="running"):
    return RankStatus(rank, None, (), counts, state=state, accounts=Accounts({"0": counts}, {"0": (0, 1, 2)}))


def receiving(rank, peer):
    message = PendingOp("irecv", 1, "0", (0, 1, 2), None, True, peer, 0, 1, (3,), "float32")
    return RankStatus(rank, None, tuple(WAITS), 0, message=message, is_in_wait=True, accounts=Accounts())


@pytest.mark.parametrize(
    ("look", "stuck"),
    [
        ([waiting(0), waiting(1), running(2)], []),
        ([waiting(0), waiting(1), running(2, state="returned")], [0, 1]),
        ([waiting(0), waiting(1), waiting(2)], []),
        ([waiting(0), waiting(1), waiting(2, name="broadcast")], [0, 1, 2]),
        ([receiving(0, 1), receiving(1, 2), running(2)], []),
        ([receiving(0, 1), receiving(1, 2), receiving(2, 0)], [0, 1, 2]),
        ([receiving(0, 1), receiving(1, 2), running(2, state="returned")], [0, 1]),
        ([receiving(0, 1), receiving(1, 2), running(2, state="silent")], []),
        ([receiving(0, None), receiving(1, 0), running(2)], []),
        ([receiving(0, None), receiving(1, 0), running(2, state="absent")], [0, 1]),
    ],
)
def test_hope_spreads_from_ranks_that_run(look, stuck):
    assert sorted(deadlocked_ranks(dict(enumerate(look)))) == stuck


def test_a_rank_in_backward_is_not_taken_for_waiting_while_it_computes():
    graph = (Frame("/x/site-packages/torch/autograd/graph.py", 1, "_engine_run_backward"),)
    operation = Operation("all_reduce", 1, "0", False, False, ((3,),), ("float32",))
    accounts = Accounts({"0": 1}, {"0": (0, 1)}, recent=(operation,))
    busy = RankStatus(0, operation, graph, 1, accounts=accounts)
    other = receiving(1, 0)
    assert deadlocked_ranks({0: busy, 1: other}) == {}
    assert "waits in a receive" in status_line(other)


def test_without_a_receive_under_way_none_is_told():
    torch_frame = Frame("/x/site-packages/torch/distributed/rendezvous.py", 1, "rendezvous")
    standing = RankStatus(0, None, (Frame("/tmp/ipykernel_1/2.py", 4, "step"), torch_frame))
    assert status_line(standing) == "runs on, at cell, line 4, in step"
