"""The judge of 09.place: groups in any order and of any kind are read, and what is wrong with them is said."""

from __future__ import annotations

import numpy as np
import pytest
from answers.lesson_09.right.place import ALL

from course_lib.layouts.mesh import Mesh
from course_lib.learn import check
from course_lib.learn.exercises.lesson_09.place import PLACE, fault_in_groups, fault_in_ranks

SIZES = {"pp": 2, "dp_shard": 2, "tp": 2}
OTHERS = [{"tp": 3, "dp_replicate": 5}, {"dp_shard": 1}, {"pp": 2, "tp": 3, "cp": 2, "ep": 2}]


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("sizes", OTHERS, ids=str)
def test_right_answers_are_right_on_meshes_that_the_check_does_not_try(answer, sizes):
    mesh, mine = Mesh.of(**sizes), answer(sizes)
    places = [mesh.coordinates(rank) for rank in range(mesh.num_ranks)]
    assert fault_in_ranks(sizes, [mine.rank_of(place) for place in places]) == ""
    for axis in sizes:
        assert fault_in_groups(sizes, axis, mine.groups_along(axis)) == ""


@pytest.mark.parametrize(
    "groups", [[{0, 4}, (5, 1), range(2, 7, 4), np.array([7, 3])], np.array([[0, 4], [1, 5], [2, 6], [3, 7]])]
)
def test_groups_of_any_kind_and_order_are_read(groups):
    assert fault_in_groups(SIZES, "pp", groups) == ""


FAULTS = [
    ([[0, 4], [1, 5], [2, 6]], "rank 3 is in no group"),
    ([[0, 4], [1, 5], [2, 6], [3, 8]], "the group [3, 8] names rank 8, and the ranks are 0 to 7"),
    ([[0, 4], [0, 4]], "rank 0 is in two groups, [0, 4] and [0, 4]"),
    ([[0, 0]], "rank 0 is twice in [0, 0]"),
    ([[0, 5]], "the group [0, 5] has ranks 0 and 5, which differ along tp"),
    ([[0, 7]], "the group [0, 7] has ranks 0 and 7, which differ along dp_shard and tp"),
    ([[0], [4]], "the group [0] has 1 of the 2 ranks that differ along pp alone"),
    ([0, 4], "expected a list of lists of ranks, such as [[0, 1], [2, 3]], got [0, 4]"),
    ([[0.0, 4.0]], "expected a list of lists of ranks, such as [[0, 1], [2, 3]], got [[0.0, 4.0]]"),
    ([[False, 4]], "expected a list of lists of ranks, such as [[0, 1], [2, 3]], got [[False, 4]]"),
    ("0 4", "expected a list of lists of ranks, such as [[0, 1], [2, 3]], got '0 4'"),
]


@pytest.mark.parametrize(("groups", "said"), FAULTS)
def test_what_is_wrong_with_groups_is_said(groups, said):
    assert fault_in_groups(SIZES, "pp", groups) == said


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (range(8), ""),
        ([0, 2], "rank_of({'pp': 0, 'dp_shard': 0, 'tp': 1}) gives rank 2, and that place is rank 1's"),
        (
            [0.0],
            "rank_of({'pp': 0, 'dp_shard': 0, 'tp': 0}) gives 0.0, which is no whole number, and that place is rank "
            "0's",
        ),
        (
            [None],
            "rank_of({'pp': 0, 'dp_shard': 0, 'tp': 0}) gives nothing back (`None`); a method gives its result with "
            "`return`",
        ),
    ],
)
def test_what_is_wrong_with_ranks_is_said(ranks, said):
    assert fault_in_ranks(SIZES, ranks) == said


def test_an_answer_that_is_half_written_is_not_wrong_yet():
    class Half:
        def __init__(self, sizes):
            self.sizes = sizes

        def rank_of(self, place):
            return 0

        def groups_along(self, axis):
            raise NotImplementedError("Your turn: write this")

    assert check("09.place", Half).status == "not attempted"


def test_a_function_in_place_of_the_class_is_told():
    first = PLACE.judge(lambda sizes: None, ()).wrong[0]
    assert first.difference == "expected the class itself, with its two methods, and got something else"


def test_a_mesh_that_is_right_once_is_not_right():
    class Once(ALL[0]):
        def groups_along(self, axis):
            groups = super().groups_along(axis)
            self.strides.pop(axis)
            return groups

    assert {one.error.kind for one in PLACE.judge(Once, ()).wrong} == {"KeyError"}
