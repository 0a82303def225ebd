"""The judge of 09.order: an order is timed as by hand, and of several best ones each is right."""

from __future__ import annotations

import itertools
import random

import pytest
from answers.lesson_09.right.order import ALL

from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_09.order import ORDER, fault_in, messages_time_s

SECONDS = {"pp": (0.01, 0.1), "dp_shard": (0.1, 1.0), "tp": (0.5, 5.0)}
SIZES = {"tp": 2, "pp": 2, "dp_shard": 2}


def test_an_order_is_timed_as_by_hand():
    # Nodes of four: ranks 0 to 3 and 4 to 7. The outermost axis alone joins rank 0 with rank 4.
    assert messages_time_s(("pp", "dp_shard", "tp"), SIZES, 4, SECONDS) == pytest.approx(0.1 + 0.1 + 0.5)
    assert messages_time_s(("tp", "dp_shard", "pp"), SIZES, 4, SECONDS) == pytest.approx(5.0 + 0.1 + 0.01)
    assert messages_time_s(("pp", "dp_shard", "tp"), SIZES, 2, SECONDS) == pytest.approx(0.1 + 1.0 + 0.5)
    # Three ranks along dp_shard, four on a node: 0 to 2 stay, 3 to 5 do not.
    sizes = {"tp": 2, "pp": 2, "dp_shard": 3}
    assert messages_time_s(("tp", "pp", "dp_shard"), sizes, 4, SECONDS) == pytest.approx(5.0 + 0.1 + 1.0)


@pytest.mark.parametrize("inner", [("dp_shard", "tp"), ("tp", "dp_shard")])
def test_of_several_best_orders_each_is_right(inner):
    assert fault_in(["pp", *inner], SIZES, 4, SECONDS) == ""


FAULTS = [
    (["tp", "pp", "dp_shard"], "takes 5.11 s with seconds="),
    (["tp", "pp", "dp_shard"], "and 0.7 s would do"),
    (["tp", "pp"], "('tp', 'pp') does not name each of the axes tp, pp, dp_shard once"),
    (["tp", "pp", "tp"], "('tp', 'pp', 'tp') does not name each of the axes tp, pp, dp_shard once"),
    (["tp", "pp", "cp"], "'cp' is no axis of this mesh, whose axes are tp, pp, dp_shard"),
    ("tp pp dp_shard", "expected a tuple of axes, such as ('tp', 'pp', 'dp_shard'), got 'tp pp dp_shard'"),
    ([2, 2, 2], "expected a tuple of axes, such as ('tp', 'pp', 'dp_shard'), got [2, 2, 2]"),
]


@pytest.mark.parametrize(("order", "said"), FAULTS)
def test_what_is_wrong_is_said(order, said):
    assert said in fault_in(order, SIZES, 4, SECONDS)


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_in_jobs_that_the_check_does_not_try(answer):
    draw = random.Random(0)
    for sizes, per_node in (({"tp": 3, "pp": 2, "dp_shard": 2}, 4), ({"pp": 2, "dp_shard": 3}, 3)):
        seconds = {axis: (draw.random(), 1 + draw.random()) for axis in sizes}
        assert fault_in(list(answer(sizes, per_node, seconds)), sizes, per_node, seconds) == ""


def test_one_group_that_leaves_its_node_is_enough():
    """Nodes of six, three groups of four: ranks 4 to 7 alone lie across."""

    def where_two_groups_leave(sizes, ranks_per_node, seconds):
        def time_s(order):
            mesh = Mesh.of(**{axis: sizes[axis] for axis in order})
            nodes = {axis: [{r // ranks_per_node for r in g} for g in mesh.groups(axis)] for axis in order}
            return sum(seconds[axis][sum(len(one) > 1 for one in nodes[axis]) > 1] for axis in order)

        return min(itertools.permutations(sizes), key=time_s)

    assert [outcome.case for outcome in ORDER.judge(where_two_groups_leave, ()).wrong] == [
        "four ranks beside three, where of three groups the middle one alone leaves its node"
    ]


def test_an_answer_that_changes_what_it_was_given_is_told():
    def best(sizes, ranks_per_node, seconds):
        order = ALL[0](sizes, ranks_per_node, seconds)
        seconds.clear()
        return order

    differences = {one.difference for one in ORDER.judge(best, ()).outcomes}
    assert differences == {"your function changed `seconds`, which others read as well"}
