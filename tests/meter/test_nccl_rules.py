"""NCCL's rules: what works on gloo and would fail on NCCL is told, and nothing else is."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist

from course_lib.meter import Call, metered, nccl_breaches


def rules(run, **options) -> list[str]:
    return [breach.rule for breach in run.communication.nccl_breaches(**options)]


# -- on real ranks -------------------------------------------------------------------------------------------------


def round_the_ring(me, how: str):
    """Each rank sends to the next and receives from the one before."""
    mine, room = torch.full((4,), float(me.rank)), torch.empty(4)
    ahead, behind = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    if how == "batch":
        operations = [dist.P2POp(dist.isend, mine, ahead), dist.P2POp(dist.irecv, room, behind)]
        works = dist.batch_isend_irecv(operations)
    else:
        works = [dist.isend(mine, ahead), dist.irecv(room, behind)]
    for work in works:
        work.wait()
    return room.tolist()


@pytest.mark.parametrize("world_size", [2, 3])
def test_messages_that_need_each_other_have_to_be_started_together(clusters, world_size):
    assert rules(metered(clusters(world_size), round_the_ring, "batch")) == []
    run = metered(clusters(world_size), round_the_ring, "alone")
    assert list(run) == [[float((r - 1) % world_size)] * 4 for r in range(world_size)], "gloo carries it"
    (breach,) = run.communication.nccl_breaches()
    assert breach.rule == "order"
    assert "On NCCL this may hang: rank 0 waits in its send to 1 (call 1); rank 1" in breach.text
    assert "batch_isend_irecv" in breach.text
    assert breach.line is not None
    assert breach.line.function == "round_the_ring"
    assert str(breach) in str(run.communication)


def test_messages_one_after_the_other_are_fine_where_somebody_receives_first(clusters):
    def by_turns(me):
        mine, room = torch.ones(2), torch.empty(2)
        if me.rank == 0:
            dist.send(mine, 1)
            dist.recv(room, 1)
        else:
            dist.recv(room, 0)
            dist.send(mine, 0)

    assert rules(metered(clusters(2), by_turns)) == []


def test_a_message_that_crosses_a_collective(clusters):
    def crossing(me):
        mine, room = torch.ones(2), torch.empty(2)
        if me.rank == 0:
            message = dist.isend(mine, 1)
            dist.all_reduce(mine.clone())
        else:
            dist.all_reduce(mine.clone())
            message = dist.irecv(room, 0)
        message.wait()

    run = metered(clusters(2), crossing)
    (breach,) = run.communication.nccl_breaches()
    assert breach.rule == "order"
    assert "rank 0 waits in its send to 1" in breach.text
    assert "rank 1 waits in its all_reduce" in breach.text


def with_tags(me, received: tuple[int, ...]):
    values = [torch.full((2,), float(tag)) for tag in (1, 2)]
    if me.rank == 0:
        works = [dist.isend(value, 1, tag=tag) for value, tag in zip(values, (1, 2), strict=True)]
    else:
        works = [dist.irecv(torch.empty(2), 0, tag=tag) for tag in received]
    for work in works:
        work.wait()


def test_tags_mean_nothing_to_nccl(clusters):
    assert rules(metered(clusters(2), with_tags, (1, 2))) == []
    (breach,) = metered(clusters(2), with_tags, (2, 1)).communication.nccl_breaches()
    assert breach.rule == "tags"
    assert "rank 0 sends to 1 with tags 1, 2, rank 1 receives with 2, 1" in breach.text


def test_a_receive_from_whoever_sends(clusters):
    def from_any(me):
        if me.rank == 0:
            dist.send(torch.ones(2), 1)
        else:
            dist.recv(torch.empty(2))

    (breach,) = metered(clusters(2), from_any).communication.nccl_breaches()
    assert breach.rule == "any source"
    assert "rank 1 receives from whoever sends" in breach.text


def test_what_nccl_does_not_have(clusters):
    def watched(me):
        dist.monitored_barrier()

    def short(me):
        numbers = torch.zeros(2, dtype=torch.int16)
        dist.send(numbers, 1) if me.rank == 0 else dist.recv(numbers, 0)

    assert rules(metered(clusters(2), watched)) == ["unsupported"]
    (breach,) = metered(clusters(2), short).communication.nccl_breaches()
    assert "NCCL has no int16, which send was given" in breach.text


def two_groups(me, is_crossed: bool):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    order = groups[::-1] if is_crossed and me.rank else groups
    for work in [dist.all_reduce(torch.ones(2), group=group, async_op=True) for group in order]:
        work.wait()
    for group in groups:
        dist.destroy_process_group(group)


def test_groups_begin_in_one_order(clusters):
    assert rules(metered(clusters(2), two_groups, False)) == []
    assert rules(metered(clusters(2), two_groups, True)) == ["groups"]


def test_a_first_call_by_some_ranks_matters_to_groups_without_a_device_id(clusters):
    def first_two(me):
        if me.rank < 2:
            operation = dist.P2POp((dist.isend, dist.irecv)[me.rank], torch.ones(2), 1 - me.rank)
            for work in dist.batch_isend_irecv([operation]):
                work.wait()

    run = metered(clusters(3), first_two)
    assert rules(run) == []
    (breach,) = run.communication.nccl_breaches(lazy_groups=True)
    assert breach.rule == "first call"
    assert "without rank 2" in breach.text


# -- on calls made up ----------------------------------------------------------------------------------------------


def call(rank, number, operation, *, peer=None, group="world", ranks=(0, 1), **rest) -> Call:
    given = {"size_bytes": 8, "sent_bytes": {}, "num_messages": 1, "start_s": 0.0, "end_s": None}
    given |= {"hidden_s": None, "line": None}
    return Call(rank, number, operation, ranks, **given, peer=peer, group_name=group, **rest)


def test_what_was_waited_for_comes_before_what_follows_in_another_group():
    """Rank 0 waits for its message before it begins in the other group, rank 1 does so in the opposite order."""

    def calls(waited_after):
        return [
            call(0, 1, "send", peer=1, waited_after=waited_after),
            call(0, 2, "send", peer=1, group="other", waited_after=2),
            call(1, 1, "recv", peer=0, group="other", waited_after=1),
            call(1, 2, "recv", peer=0, waited_after=2),
        ]

    assert [breach.rule for breach in nccl_breaches(calls(1))] == ["order"]
    assert nccl_breaches(calls(2)) == (), "begun before the wait: each group has a queue of its own"


def test_a_batch_is_one_entry_in_whatever_order_its_messages_stand():
    for mine, theirs in itertools.product(itertools.permutations(range(2)), repeat=2):
        halves = [("send", 1), ("recv", 1)], [("send", 0), ("recv", 0)]
        calls = [
            call(rank, number + 1, *halves[rank][place][:1], peer=halves[rank][place][1], batch=1)
            for rank, order in enumerate((mine, theirs))
            for number, place in enumerate(order)
        ]
        assert nccl_breaches(calls) == ()


def test_batches_that_follow_each_other_are_apart():
    """Rank 0 sends in its first batch, and so does rank 1: each would receive in its second."""
    calls = [
        call(rank, number, operation, peer=1 - rank, batch=number)
        for rank in (0, 1)
        for number, operation in ((1, "send"), (2, "recv"))
    ]
    assert [breach.rule for breach in nccl_breaches(calls)] == ["order"]


def test_different_collectives_in_one_place():
    calls = [call(0, 1, "all_reduce"), call(1, 1, "broadcast")]
    (breach,) = nccl_breaches(calls)
    assert "rank 0 waits in its all_reduce (call 1); rank 1 waits in its broadcast (call 1)" in breach.text


def test_a_run_of_many_calls_is_read_in_no_time():
    calls = [
        call(rank, number, "all_reduce", group="ab"[number % 2], waited_after=number)
        for rank in (0, 1)
        for number in range(1, 20_001)
    ]
    assert nccl_breaches(calls) == ()
