"""The judge of 10.documents: its rules hold for the library's cut of any packing, and its sentences say what is so."""

from __future__ import annotations

import random

import pytest

from course_lib.cost import ring_pairs
from course_lib.layouts import DocumentCut
from course_lib.learn.exercises.lesson_10.documents.rules import PACKINGS, fault_in


def test_the_librarys_cut_keeps_the_promise_whatever_the_lengths():
    draw = random.Random(1)
    for _ in range(300):
        lengths = [draw.randint(1, draw.choice((3, 20, 90))) for _ in range(draw.randint(1, 9))]
        cut = DocumentCut.by_order(lengths, draw.randint(1, 10), "even")
        assert fault_in(cut.owned, lengths) == ""


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "per_document"])
def test_other_orders_do_not(order):
    assert any(fault_in(DocumentCut.by_order(lengths, n, order).owned, lengths) for n, lengths in PACKINGS)


def test_pairs_are_those_of_the_library():
    cut = DocumentCut.by_order([40, 8, 8, 8], 4, "zigzag")
    assert [sum(own) for own in zip(*ring_pairs(cut), strict=True)] == [72, 136, 200, 520]
    assert "rank 3 computes 520 pairs; the mean is 232" in fault_in(cut.owned, cut.lengths)


FAULTS = [
    ([[0, 3, 4], [1, 2]], ""),
    ([[0, 3], [1, 2]], "no rank has position 4"),
    ([[0, 3, 4], [1, 2, 3]], "position 3 is with rank 0 and with rank 1"),
    ([[0, 3, 5], [1, 2]], "rank 0 has position 5, and positions are 0 to 4"),
    ([[3, 0, 4], [1, 2]], "rank 0 has position 3 before 0, and they are to rise"),
    ([[0, 1, 3, 4], [2]], "rank 0 has 4 tokens and rank 1 has 1: more than 1 apart"),
]


@pytest.mark.parametrize(("parts", "said"), FAULTS)
def test_what_is_wrong_is_said(parts, said):
    assert fault_in(parts, [4, 1]) == said


def test_pairs_and_runs_are_said_with_the_numbers_that_are_allowed():
    just_allowed = [[0, 1, 2, 3], [4, 5, 6, 7]]  # 10 and 26 pairs: the mean is 18, and one query may cost 8
    assert fault_in(just_allowed, [8]) == ""
    said = "rank 1 computes 57 pairs; the mean is 39, and with a longest document of 12 tokens, 51 are the most"
    assert fault_in([list(range(6)), list(range(6, 12))], [12]) == said
    striped = [list(range(rank, 12, 2)) for rank in range(2)]
    assert fault_in(striped, [12]) == "the positions of rank 0 make 6 stretches, and with 1 document 4 are the most"
