"""The instruments of a job of one process: what is given wrongly, a block that fails, a rank of a Cluster."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import RankFailed
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.own_job import recorded, watchdog
from course_lib.own_job.store_exchange import StoreExchange, job_store, own_place
from course_lib.own_job.watchdog import hang_story


def test_without_a_process_group_there_is_one_rank_that_sends_nothing():
    assert own_place() == (0, 1)
    assert job_store() is None
    with recorded() as run, pytest.raises(RuntimeError, match="has not ended yet"):
        _ = run.communication
    assert (run.rank, run.world_size, run.communication.calls) == (0, 1, ())
    assert str(run) == "no communication"


def test_times_and_folders_that_cannot_be_are_told(tmp_path):
    with pytest.raises(ValueError, match="wait_s is -1, and it must be 0 seconds or more"), recorded(wait_s=-1):
        pass
    with pytest.raises(ValueError, match="quiet_s is 0, and it must be more than 0"), watchdog(quiet_s=0):
        pass
    missing = tmp_path / "box"
    with pytest.raises(ValueError, match="there is no such folder"), watchdog(folder=missing):
        pass


def test_a_watchdog_of_a_job_that_does_not_hang_says_nothing(capfd, tmp_path):
    with watchdog(quiet_s=0.2, folder=tmp_path):
        torch.ones(3).sum()
    assert capfd.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def watched_on_a_rank(me):
    with watchdog():
        pass


def test_a_rank_of_a_cluster_is_told_that_it_needs_none(cluster2):
    with pytest.raises(RankFailed, match="a Cluster tells a hang of its ranks by itself"):
        cluster2.run(watched_on_a_rank)


def failing_block(me):
    """What each rank knows after a block that failed on rank 1, and rank 0's warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with recorded(wait_s=0.3) as run:
                dist.all_reduce(torch.ones(4))
                if me.rank == 1:
                    raise KeyError
        except KeyError:
            pass
    dist.barrier()
    return run.communication.by_operation(), run.missing, [str(one.message) for one in told], str(run)


def test_a_block_that_fails_on_a_rank_leaves_its_own_calls_and_rank_0_warns(cluster2):
    first, second = cluster2.run(failing_block)
    assert first[0] == second[0] == {"all_reduce": 1}
    assert first[1] == (1,)
    assert "rank 1 did not end the block within 0.3 s of rank 0" in first[2][0]
    assert first[3].endswith("of rank 1 nothing has come")
    assert second[1] == ()
    assert second[3].startswith("rank 1 alone:")


def twice(me):
    found = []
    for size in (4, 8):
        with recorded() as run:
            dist.all_reduce(torch.ones(size))
        found.append([call.size_bytes for call in run.communication.calls])
    return found


def test_blocks_of_one_job_do_not_mix(cluster2):
    first, second = cluster2.run(twice)
    assert first == [[16, 16], [32, 32]]
    assert second == [[16], [32]]


def test_what_was_taken_is_gone_from_the_store():
    store = dist.HashStore()
    exchange = StoreExchange(store, "trial")
    exchange.put(1, b"one")
    assert exchange.has(1)
    assert exchange.take([1, 2], within_s=0.1) == {1: b"one"}
    assert not exchange.has(1)


def test_a_rank_that_does_not_answer_is_told_as_silent():
    statuses = {0: RankStatus(0, None, ()), 1: RankStatus(1, None, (), state="silent")}
    assert "rank 1  does not answer" in hang_story(statuses, 2, 5)
