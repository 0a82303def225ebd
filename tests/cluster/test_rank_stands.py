"""Where ranks stood when a call was ended, as data: the same as the story says in words."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import RankFailed, RankTimeout
from course_lib.cluster.failures.rank_stands import RankStands
from course_lib.cluster.failures.stands_of_ranks import stands_of

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")


@pytest.fixture(scope="module")
def three():
    from course_lib.cluster import Cluster

    with Cluster(3, timeout_s=20.0) as cluster:
        yield cluster


def stood(cluster, function, error) -> RankStands:
    with pytest.raises(error) as caught:
        cluster.run(function)
    return stands_of(caught.value.statuses, caught.value.failures, caught.value.failure)


def leaves_one_out(me):
    if me.rank != 1:
        dist.all_reduce(torch.ones(4, dtype=torch.float64))


def test_who_never_called_and_what_others_wait_in(three):
    stands = stood(three, leaves_one_out, RankTimeout)
    assert stands.never_called == {1}
    first, second, third = stands.ranks
    assert second.state == "returned"
    for one in (first, third):
        assert one.waits_in("all_reduce")
        assert (one.number, one.shape, one.dtype) == (1, (4,), "float64")
    assert (stands.let_go, stands.too_large) == (frozenset(), "")


def all_receive_first(me):
    dist.recv(torch.empty(2), (me.rank + 1) % me.world_size)


def test_messages_have_two_ends(three):
    stands = stood(three, all_receive_first, RankTimeout)
    assert [(one.rank, one.peer) for one in stands.waiting_in("receive")] == [(0, 1), (1, 2), (2, 0)]
    assert not stands.waiting_in("send")
    assert not stands.have_returned
    assert not stands.never_called


def sends_more_than_fits(me):
    if me.rank == 0:
        dist.send(torch.ones(1000), 1)
    elif me.rank == 1:
        dist.recv(torch.empty(10), 0)


def reduces_more_than_others(me):
    dist.all_reduce(torch.ones(1000 if me.rank == 0 else 10))


def test_a_message_that_is_too_large(three):
    stands = stood(three, sends_more_than_fits, RankFailed)
    assert stands.too_large == "message"
    assert "failed" in {one.state for one in stands.ranks}


def test_a_collective_of_other_sizes_is_told_from_a_message_as_the_story_does(three):
    """It is known where another rank still stands in the call; where all have died, the story speaks of a message."""
    with pytest.raises(RankFailed) as caught:
        three.run(reduces_more_than_others)
    stands = stands_of(caught.value.statuses, caught.value.failures, caught.value.failure)
    is_collective = "in a collective it was sent more than its tensor has room for" in str(caught.value)
    assert stands.too_large == ("collective" if is_collective else "message")


def fails_beside_others(me):
    if me.rank == 2:
        raise ValueError("mine")
    dist.barrier()


def test_beside_a_rank_that_fails_nobody_is_said_never_to_have_called(three):
    stands = stood(three, fails_beside_others, RankFailed)
    assert stands.ranks[2].state == "failed"
    assert not stands.never_called
