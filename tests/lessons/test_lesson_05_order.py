"""The judge of 05.order: it runs an order, and what it calls the shortest is."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from answers.lesson_05.right.orders import ALL

from course_lib.learn.exercises.lesson_05.order import fault_in, shortest_order, step_time


def shortest_by_search(num_units: int, most_whole: int, gather: float) -> float:
    """Every way to let go and to gather before each use, whatever is gathered twice."""
    uses = [(unit, 1.0) for unit in range(num_units)] + [(unit, 2.0) for unit in reversed(range(num_units))]

    @cache
    def from_here(place: int, held: frozenset[tuple[int, float]], link_free: float) -> float:
        if place == len(uses):
            return 0.0
        need, takes = uses[place]
        best = float("inf")
        for kept in itertools.chain.from_iterable(itertools.combinations(held, r) for r in range(len(held) + 1)):
            others = set(range(num_units)) - {unit for unit, _ in kept}
            for more in range(most_whole - len(kept) + 1):
                for begun in itertools.permutations(others, more):
                    there, free = dict(kept), link_free
                    for unit in begun:
                        free += gather
                        there[unit] = free
                    if need in there:
                        passed = max(0.0, there[need]) + takes
                        after = frozenset((unit, max(0.0, at - passed)) for unit, at in there.items())
                        best = min(best, passed + from_here(place + 1, after, max(0.0, free - passed)))
        return best

    return from_here(0, frozenset(), 0.0)


@pytest.mark.parametrize(("num_units", "most_whole"), [(3, 1), (3, 2), (4, 2), (2, 3)])
@pytest.mark.parametrize("gather", [0.5, 1.5, 3.0])
def test_no_order_is_shorter(num_units, most_whole, gather):
    order = shortest_order(num_units, most_whole)
    assert fault_in(order, num_units, most_whole) == ""
    assert step_time(order, gather) == shortest_by_search(num_units, most_whole, gather)


def test_a_step_is_timed_as_by_hand():
    # 0 to 2: G0; 2 to 4: G1. F0 2 to 3, F1 4 to 5, B1 5 to 7, B0 7 to 9.
    assert step_time(["G0", "G1", "F0", "F1", "B1", "R1", "B0", "R0"], gather=2.0) == 9.0


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("sizes", [(9, 3), (2, 2), (3, 9)], ids=str)
def test_right_answers_are_right_at_sizes_that_the_check_does_not_try(answer, sizes):
    order = answer(*sizes)
    assert fault_in(order.split() if isinstance(order, str) else list(order), *sizes) == ""


RIGHT = "G0 G1 F0 R0 G2 F1 F2 B2 R2 G0 B1 R1 B0 R0"
FAULTS = [
    (RIGHT.replace("F1 F2", "F2 F1"), "F2 comes where F1 has its turn"),
    (RIGHT.replace("F1", "B1"), "B1 comes where F1 has its turn"),
    (RIGHT.replace(" R0 G2", ""), "F2 comes before its unit is gathered"),
    (RIGHT.replace("R2 G0 B1", "R2 B1"), "B0 comes before its unit is gathered again"),
    (RIGHT.replace("R0 G2", "G2 R0"), "after G2 3 units are whole or on their way, and 2 may be"),
    (RIGHT.replace("G0 G1 F0", "G0 G0 F0"), "G0 gathers a unit that is whole, or on its way, already"),
    (RIGHT.replace("F0 R0", "F0 R0 R0"), "R0 lets a unit go that is not whole"),
    (RIGHT.removesuffix(" R0"), "after the last word unit 0 is still whole"),
    (RIGHT.removesuffix(" B0 R0") + " R0", "B0 is missing"),
    (RIGHT + " B0", "B0 comes after all forwards and backwards are done"),
    (RIGHT.replace("G2", "G3"), "G3 names unit 3, and the units are 0 to 2"),
    (RIGHT.replace("F0", "wait"), "'wait' is no word such as G2, F2, B2 or R2"),
    (RIGHT.replace("F2 B2", "F2 R2 G2 B2"), "it begins 5 all-gathers, and 4 would do"),
    (
        RIGHT.replace("R2 G0 B1", "R2 B1").replace("R1 B0", "R1 G0 B0"),
        "if an all-gather takes 0.5 times as long as a forward, and a backward 2 times, "
        "the step takes 10 forwards, and 9.5 would do",
    ),
    (RIGHT, ""),
]


@pytest.mark.parametrize(("order", "said"), FAULTS)
def test_what_is_wrong_is_said(order, said):
    assert fault_in(order.split(), 3, 2) == said
