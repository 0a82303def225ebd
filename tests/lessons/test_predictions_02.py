"""What lesson 02 tells after a run: right beside plausible runs, and frank beside runs that the model does not meet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from told_runs import ToldRuns

from course_lib.cost import collective_cost
from course_lib.layouts.link import Link
from course_lib.learn import exercises

ASKED = {asked.name: asked for asked in exercises.predictions_of("02")}
MIB = 2**20
EVERYBODY = range(4)


def counted(sent_mib, received_mib=0.0):
    """A communication in which each rank sends and receives so much."""
    return SimpleNamespace(
        sent_bytes=lambda rank: sent_mib * MIB,
        received_bytes=lambda rank: received_mib * MIB,
        busiest_bytes=max(sent_mib, received_mib) * MIB,
    )


def frame(sources):
    """What lies at each rank and place, where ``sources(rank, place)`` says whose pieces do."""
    return [[{(source, place) for source in sources(rank, place)} for place in EVERYBODY] for rank in EVERYBODY]


AT_THE_END = {
    "broadcast": frame(lambda rank, place: [0]),
    "all_gather": frame(lambda rank, place: [place]),
    "reduce": frame(lambda rank, place: EVERYBODY if rank == 0 else []),
    "reduce_scatter": frame(lambda rank, place: EVERYBODY if rank == place else []),
    "all_reduce, ring": frame(lambda rank, place: EVERYBODY),
    "all_to_all": [[{(place, rank)} for place in EVERYBODY] for rank in EVERYBODY],
}


def times(ring_us, tree_us):
    return {"ring": [ring_us * 1e-6, 1.0], "tree": [tree_us * 1e-6, 0.1]}


def recording(name, num_steps, sent_bytes):
    return SimpleNamespace(name=name, num_steps=num_steps, sent_bytes=lambda rank: sent_bytes)


RECORDED = [recording("reduce", 2, 4096), recording("all_reduce, ring", 6, 6144)]
RECORDED += [recording("all_reduce, halving-doubling", 4, 6144)]


def stuck(*ranks):
    """An error after which these ranks stood in new_group."""
    return SimpleNamespace(
        statuses={rank: SimpleNamespace(rendezvous="new_group" if rank in ranks else "") for rank in EVERYBODY}
    )


def dumps(*enqueued):
    return [{"pg_status": {"0": {"last_enqueued_collective": count}}} for count in enqueued]


ON_64 = collective_cost(
    "all_reduce", 1e9, Link(latency_s=8e-6, bandwidth_bytes_per_s=50e9), num_ranks=64, algorithm="ring"
)
HANG = "all four hang, where they make the group of everybody"

RUNS = [  # name, what ran, what is measured, what the model says
    ("02.which", (AT_THE_END,), "reduce_scatter", None),
    ("02.naive", (counted(3, 3),), 6, 2 * (4 - 1)),
    ("02.ring_bytes", (counted(1.5, 1.5),), 1.5, 2 * (4 - 1) / 4),
    ("02.small", (times(1800, 400),), "tree", "tree"),
    ("02.small", (times(300, 400),), "ring", "tree"),
    ("02.small", (times(400, 410),), "the same", "tree"),
    ("02.reduce_scatter", (counted(1.5), counted(0.75)), 2, None),
    ("02.halving", (RECORDED,), 4, 4),
    ("02.algbw", (ON_64,), ON_64.algorithm_bandwidth_bytes_per_s / 1e9, None),
    ("02.new_group", (stuck(0, 1, 2, 3),), HANG, None),
    ("02.deadlock", (), "all send, nobody receives", None),
    ("02.mismatch", (), "rank 0 calls in another order", None),
    ("02.skip", (), "rank 1 has made one call fewer", None),
    ("02.returns", ([1e-3, 5e-2, 1e-5], "cpu"), "work.wait()", None),
    ("02.blame", (dumps(9, 9, 8, 9),), "rank 2", None),
]
FAR = [
    ("02.naive", (counted(12, 0),)),
    ("02.ring_bytes", (counted(3, 3),)),
    ("02.small", (times(300, 400),)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0.5,)
    one_sided = ("02.small",)


@pytest.mark.parametrize(
    ("ended", "measured"),
    [
        (SimpleNamespace(results=[6.0] * 4), "it works: each rank has made the groups that it is in"),
        (stuck(2, 3), "ranks 2 and 3 hang, where they make their pair"),
        (stuck(1), "ranks [1] hang in new_group"),
    ],
)
def test_another_end_of_the_groups_is_told_as_it_was(ended, measured):
    assert ASKED["02.new_group"].tell(ended).measured == measured


def test_on_a_gpu_the_time_is_in_the_line_that_reads():
    told = ASKED["02.returns"].tell([1e-5, 1e-5, 5e-2], "cuda")
    assert told.measured == "tensor[-1].item()"
    assert "GPU's queue" in told.because


def test_whoever_has_enqueued_least_is_to_blame():
    assert ASKED["02.blame"].tell(dumps(4, 5, 5, 4)).measured == "rank 0 and rank 3"


def test_halving_that_sends_more_than_the_ring_is_told_so():
    recorded = [recording("all_reduce, ring", 6, 100), recording("all_reduce, halving-doubling", 4, 150)]
    assert "1.50 times the ring's bytes" in ASKED["02.halving"].tell(recorded).because


def test_size_over_time_is_half_of_the_link_on_many_ranks():
    assert ASKED["02.algbw"].tell(ON_64).measured == pytest.approx(24.76, abs=0.05)


def test_five_times_is_not_explained_by_six_messages_against_four():
    five = ASKED["02.small"].tell(times(2000, 400)).because
    assert "should take 1.5 times as long. In this run it took 5.0 times as long." in five
    assert "Messages in a row do not account for that." in five
    assert "the ring sends 24 messages and the tree 6" in five
    assert "account" not in ASKED["02.small"].tell(times(600, 400)).because


def test_a_reduce_scatter_of_nccl_is_not_called_wasteful():
    told = ASKED["02.reduce_scatter"].tell(counted(0.75), counted(0.75))
    assert told.measured == 1
    assert "NCCL, which stops after the first lap" in told.because
