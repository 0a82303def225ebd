"""The judge of 12.place against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from answers.lesson_12.right.place import ALL, ByABisection

from course_lib.learn import check, exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_12.place import LAYOUTS, NODE_PLACES, fault_in_places, fault_in_ranks, places_on
from course_lib.learn.exercises.lesson_12.place.wrong_answers import MISTAKES

OTHERS = ([3, 1, 4, 1, 5], [16] * 3, [1], [7, 2])
TWO = [2, 3]


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("sizes", OTHERS, ids=str)
def test_right_answers_are_right_on_nodes_that_the_check_does_not_try(answer, sizes):
    mine, places = answer(sizes), places_on(sizes)
    assert fault_in_places(sizes, range(sum(sizes)), [mine.place_of(r) for r in range(sum(sizes))]) == ""
    assert fault_in_ranks(sizes, places, [mine.rank_of(*place) for place in places]) == ""


@pytest.mark.parametrize(
    "places",
    [
        [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)],
        [[0, 0], np.array([0, 1]), torch.tensor([1, 0]), (np.int64(1), torch.tensor(1)), (1, 2)],
    ],
    ids=["plain", "of many kinds"],
)
def test_places_of_any_kind_are_read(places):
    assert fault_in_places(TWO, range(5), places) == ""


@pytest.mark.parametrize(
    ("rank", "place", "said"),
    [
        (2, (0, 2), "with [2, 3], place_of(2) gives (0, 2), and rank 2 is on node 1, with the local rank 0"),
        (0, None, "place_of(0) gives nothing back (`None`); a method gives its result with `return`"),
        (1, 1, "place_of(1) gives 1; expected a node and a local rank, such as (0, 1)"),
        (0, (0, 0, 0), "place_of(0) gives (0, 0, 0); expected a node and a local rank"),
        (0, (0.0, 0.0), "place_of(0) gives (0.0, 0.0); expected a node and a local rank"),
        (0, (False, 0), "place_of(0) gives (False, 0); expected a node and a local rank"),
    ],
)
def test_what_is_wrong_with_a_place_is_said(rank, place, said):
    assert said in fault_in_places(TWO, [rank], [place])


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (3, "with [2, 3], rank_of(1, 0) gives rank 3, and that place is rank 2's"),
        (None, "rank_of(1, 0) gives nothing back (`None`)"),
        (2.0, "rank_of(1, 0) gives 2.0, which is no whole number"),
        ((1, 0), "rank_of(1, 0) gives (1, 0), which is no whole number"),
    ],
)
def test_what_is_wrong_with_a_rank_is_said(rank, said):
    assert said in fault_in_ranks(TWO, [(1, 0)], [rank])


class _Half(ByABisection):
    def rank_of(self, node, local_rank):
        raise NotImplementedError("Your turn: write this")


def test_an_answer_that_is_half_written_is_not_wrong_yet():
    assert check("12.place", _Half).status == "not attempted"


def test_a_function_in_place_of_the_class_is_told():
    first = NODE_PLACES.judge(lambda sizes: None, ()).wrong[0]
    assert first.difference == "expected the class itself, with its two methods, and got something else"


def _wrong(**methods):
    """A right answer but for these methods."""
    return type("Wrong", (ByABisection,), {**methods, "__init__": _keep})


def _keep(self, sizes):
    ByABisection.__init__(self, sizes)
    self.sizes = sizes


def _sorted(self, rank):
    """The largest nodes first."""
    return ByABisection(sorted(self.sizes, reverse=True)).place_of(rank)


TIRED = {
    "by-the-mean": _wrong(place_of=lambda self, rank: divmod(rank, sum(self.sizes) // len(self.sizes))),
    "by-eight": _wrong(place_of=lambda self, rank: divmod(rank, 8)),
    "the-last-nodes-size": _wrong(place_of=lambda self, rank: divmod(rank, self.sizes[-1])),
    "sorted-nodes": _wrong(place_of=_sorted),
    "from-the-back": _wrong(place_of=lambda self, rank: ByABisection.place_of(self, sum(self.sizes) - 1 - rank)),
    "local-from-the-back": _wrong(
        place_of=lambda self, rank: (
            (p := ByABisection.place_of(self, rank))[0],
            self.sizes[p[0]] - 1 - p[1],
        )
    ),
    "node-alone": _wrong(place_of=lambda self, rank: ByABisection.place_of(self, rank)[0]),
    "a-dictionary": _wrong(
        place_of=lambda self, rank: dict(zip(("node", "local"), ByABisection.place_of(self, rank), strict=True))
    ),
    "a-text": _wrong(place_of=lambda self, rank: str(ByABisection.place_of(self, rank))),
    "floats": _wrong(place_of=lambda self, rank: tuple(map(float, ByABisection.place_of(self, rank)))),
    "ranks-from-one": _wrong(rank_of=lambda self, node, local: ByABisection.rank_of(self, node, local) + 1),
    "arguments-exchanged": _wrong(rank_of=lambda self, node, local: sum(self.sizes[:local]) + node),
    "node-plus-local": _wrong(rank_of=lambda self, node, local: node + local),
    "times-the-last": _wrong(rank_of=lambda self, node, local: node * self.sizes[-1] + local),
    "a-float": _wrong(rank_of=lambda self, node, local: float(ByABisection.rank_of(self, node, local))),
    "a-list": _wrong(rank_of=lambda self, node, local: [ByABisection.rank_of(self, node, local)]),
    "nothing": _wrong(place_of=lambda self, rank: None),
}


@pytest.mark.parametrize("name", TIRED)
def test_wrong_places_are_turned_away(name):
    seen = judged(exercises.exercise("12.place"), TIRED[name])
    assert seen.status == "not yet", seen
    assert not (name.startswith(("a-", "floats", "node-alone")) and seen.mistake), seen  # no place is mixed up
    assert any(f"with {list(sizes)}, " in f"{seen.message} {seen.evidence}" for sizes in LAYOUTS), seen


def test_an_answer_of_which_one_method_is_wrong_is_told_by_its_mistake():
    half = _wrong(rank_of=lambda self, node, local: node * self.sizes[0] + local)
    assert judged(exercises.exercise("12.place"), half).mistake == "all-as-the-first"


def test_every_mistake_has_a_message_of_its_own():
    assert len({mistake.message for mistake in MISTAKES}) == len(MISTAKES) >= 8
