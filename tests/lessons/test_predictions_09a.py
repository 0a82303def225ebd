"""What part a of lesson 09 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from told_runs import ToldRuns

from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_09.predictions.places import PLACES

ASKED = {asked.name: asked for asked in PLACES}
CUBE = Mesh.of(pp=2, dp_shard=2, tp=2)
PARTNERS = {axis: CUBE.group(5, axis) for axis in CUBE.axes}
TP_DP, TP_PP = ("dp_replicate", "tp"), ("pp", "tp")
SENT = {TP_DP: {"tp": 2_365_440, "dp_replicate": 469_248}, TP_PP: {"tp": 2_359_296, "pp": 262_144}}
FEW = {TP_DP: {"tp": 295_680, "dp_replicate": 469_248}, TP_PP: {"tp": 294_912, "pp": 32_768}}
BOTH_S = {"tp": (0.06, 0.6), "dp_replicate": (0.012, 0.12)}
FEW_S = {"tp": (0.0075, 0.075), "dp_replicate": (0.012, 0.12)}
LARGE = list(Mesh.of(pp=2, tp=4, ranks_per_node=2).orders())
ORDERS = [order.axes for order in CUBE.orders()]
TIMES_S = {"tp": 0.15, "dp_replicate": 0.1}
SIX_S = {order: {"pp": 0.14, "dp_shard": 0.18, "tp": 0.61}[order[0]] for order in ORDERS}
EQUAL = "it makes no difference"

RUNS = [  # name, what ran, what is measured, what the model says
    ("09.partner", (PARTNERS,), "rank 1", None),
    ("09.axis", (SENT,), "tp", None),
    ("09.axis", (FEW,), "dp_replicate", None),
    ("09.cut", (LARGE,), "in neither", None),
    ("09.factor", (3.12, 0.612, 0.18, BOTH_S), 3.1, 3.4),
    ("09.habit", ({"tp": 0.15, "dp_replicate": 0.1}, FEW_S), "dp_replicate", "dp_replicate"),
    ("09.habit", ({"tp": 0.2, "dp_replicate": 0.6}, BOTH_S), "tp", "tp"),
    ("09.habit", ({"tp": 0.1, "dp_replicate": 0.102}, FEW_S), EQUAL, "dp_replicate"),
    ("09.six", (SIX_S,), 3, None),
    ("09.six", (dict(zip(ORDERS, (1.0, 1.0 + 1e-9, 2.0, 2.0, 3.0, 4.0), strict=True)),), 4, None),
]
FAR = [
    ("09.factor", (1.2, 0.612, 0.18, BOTH_S)),
    ("09.habit", ({"tp": 0.1, "dp_replicate": 0.2}, FEW_S)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR


def test_the_numbers_told_are_those_of_the_run():
    assert "5.0 times the bytes of `dp_replicate`, and 9 times" in ASKED["09.axis"].tell(SENT).because
    assert "By the model 87 ms with the gradients inside, and 128 ms" in ASKED["09.habit"].tell(TIMES_S, FEW_S).because
