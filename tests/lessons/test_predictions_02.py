"""What lesson 02 tells after a run: right beside plausible runs, and frank beside runs that the model does not meet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.learn import ask, exercises, reveal
from course_lib.learn.revealed import _agree

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
    return [
        [{(source, place) for source in sources(rank, place)} for place in EVERYBODY] for rank in EVERYBODY
    ]


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


RUNS = [  # name, what ran, what is measured, what the model says
    ("02.which", (AT_THE_END,), "reduce_scatter", None),
    ("02.naive", (counted(3, 3),), 6, 2 * (4 - 1)),
    ("02.ring_bytes", (counted(1.5, 1.5),), 1.5, 2 * (4 - 1) / 4),
    ("02.small", (times(1800, 400),), "tree", "tree"),
    ("02.small", (times(300, 400),), "ring", "tree"),
    ("02.small", (times(400, 410),), "the same", "tree"),
    ("02.reduce_scatter", (counted(1.5), counted(0.75)), 2, None),
    ("02.deadlock", (), "all send, nobody receives", None),
    ("02.mismatch", (), "rank 0 calls in another order", None),
    ("02.skip", (), "rank 1 has made one call fewer", None),
]
USUAL = [one for number, one in enumerate(RUNS) if number not in (4, 5)]
FAR = [
    ("02.naive", (counted(12, 0),)),
    ("02.ring_bytes", (counted(3, 3),)),
    ("02.small", (times(300, 400),)),
]


@pytest.mark.parametrize(("name", "run", "measured", "model"), RUNS)
def test_what_is_told(name, run, measured, model):
    told = ASKED[name].tell(*run)
    assert (told.measured, told.model) == (measured, model)


@pytest.mark.parametrize(("name", "run", "measured", "model"), USUAL)
def test_a_misreading_is_a_possible_answer_and_a_wrong_one(name, run, measured, model):
    asked = ASKED[name]
    for key in asked.tell(*run).misreadings:
        if callable(key):
            assert key(0.5)
            assert not key(measured)
        else:
            assert key in asked.choices if asked.choices else asked.low <= key <= asked.high
            assert not _agree(key, measured)
            assert not _agree(key, model)


@pytest.mark.parametrize(("name", "run"), FAR)
def test_a_run_far_from_the_model_is_said_to_be_so(name, run):
    shown = reveal(name, *run)
    assert shown.is_apart
    assert f"the cost model and the run are apart. {ASKED[name].tell(*run).apart}" in repr(shown)
    ask(name).reset()


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
