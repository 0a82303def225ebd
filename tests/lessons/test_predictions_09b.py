"""What part b of lesson 09 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_09.predictions.pieces import PIECES

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
    ("09.dropped", (), "ranks of a tensor group drop different numbers of one stream", None),
]
FAR = [
    ("09.row", ([1], SQUARE)),
    ("09.share", (dict.fromkeys(range(8), range(2)),)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR
    one_sided = ("09.row",)


def test_rows_and_sizes_told_are_those_of_the_run():
    assert "rows 64 to 127 lie on rank 2, and the next rows on rank 1" in ASKED["09.row"].tell([2], SQUARE).because
    turned = ASKED["09.row"].tell([1], Mesh.of(tp=2, dp_shard=2))  # tp outside: the order of rows is that of ranks
    assert turned.model == "rank 1"
    assert "453 KiB with dp_shard=8, 468 KiB with dp_shard=2 tp=4" in ASKED["09.least"].tell(KEPT).because
