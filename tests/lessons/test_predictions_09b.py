"""What part b of lesson 09 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import pytest

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_09.predictions_pieces import PIECES
from course_lib.mesh import Mesh

ASKED = {asked.name: asked for asked in PIECES}
SQUARE = Mesh.of(dp_shard=2, tp=2)
KEPT = {"dp_shard=8": 453.0, "dp_shard=2 tp=4": 468.0, "pp=2 tp=4": 484.0, "pp=2 dp_shard=2 tp=2": 466.0}
FULLEST = {"dp_shard=8": 838.0, "dp_shard=2 tp=4": 566.0, "pp=2 tp=4": 484.0, "pp=2 dp_shard=2 tp=2": 796.0}
SEEN = {rank: range(4) if rank & 2 else range(4, 8) for rank in range(8)}

RUNS = [  # name, what ran, what is measured, what the model says
    ("09.row", ([2], SQUARE), "rank 2", "rank 2"),
    ("09.row", ([1], SQUARE), "rank 1", "rank 2"),
    ("09.least", (KEPT,), "dp_shard=8", None),
    ("09.fullest", (FULLEST,), "pp=2 tp=4", None),
    ("09.share", (SEEN,), 4, 4),
    ("09.unseen", (), "ranks of a tensor group are given different windows", None),
    ("09.logged", (2.782 / 5.564,), 0.5, 0.5),
    ("09.seeds", ([7, 7, 8, 8, 9, 9, 10, 10],), 4, 4),
    ("09.dropped", (), "ranks of a tensor group drop different numbers of one stream", None),
]
USUAL = {name: (runs, right) for name, runs, right, _ in reversed(RUNS)}  # of several runs the first
FAR = [
    ("09.row", ([1], SQUARE)),
    ("09.share", (dict.fromkeys(range(8), range(2)),)),
    ("09.logged", (1.0,)),
    ("09.seeds", (range(8),)),
]


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_prediction_is_tried():
    assert list(dict.fromkeys(name for name, *_ in RUNS)) == list(ASKED)


@pytest.mark.parametrize(("name", "runs", "measured", "model"), RUNS)
def test_a_run_is_told_as_it_was(name, runs, measured, model):
    told = ASKED[name].tell(*runs)
    assert told.measured == measured
    assert told.model == model
    if ASKED[name].choices is not None:
        assert told.measured in ASKED[name].choices


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    runs, right = USUAL[name]
    for wrong, sentence in ASKED[name].tell(*runs).misreadings.items():
        assert wrong != right
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, *runs)
        assert not shown.is_right
        assert shown.misreading == sentence
        assert sentence in repr(shown)


@pytest.mark.parametrize("name", ASKED)
def test_every_wrong_choice_hears_why(name):
    runs, right = USUAL[name]
    choices = set(ASKED[name].choices or ())
    assert choices - {right} == choices & set(ASKED[name].tell(*runs).misreadings)


@pytest.mark.parametrize(("name", "runs"), FAR)
def test_a_run_far_from_the_model_is_called_so(name, runs):
    shown = reveal(name, *runs)
    assert shown.is_apart
    assert shown.apart in repr(shown)


def test_rows_and_sizes_told_are_those_of_the_run():
    assert (
        "rows 64 to 127 lie on rank 2, and those after them on rank 1"
        in ASKED["09.row"].tell([2], SQUARE).because
    )
    turned = ASKED["09.row"].tell(
        [1], Mesh.of(tp=2, dp_shard=2)
    )  # tp outside: the order of rows is that of ranks
    assert turned.model == "rank 1"
    assert "453 KiB with dp_shard=8, 468 KiB with dp_shard=2 tp=4" in ASKED["09.least"].tell(KEPT).because
