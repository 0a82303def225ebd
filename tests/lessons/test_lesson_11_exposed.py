"""The judge of 11.exposed: its oracle, what it refuses in which words, and what it accepts."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from answers.lesson_11.right.exposed import ANSWERS

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_11.exposed import EXPOSED, wrong_answers
from course_lib.learn.exercises.lesson_11.exposed.cases import CASES
from course_lib.learn.sick.sick_runs.intervals import exposed_s, union

pytestmark = pytest.mark.xdist_group("exercises")


def by_cells(spans):
    """Every eighth of a second by itself: right where all edges lie on that grid."""
    first = int(8 * min((begin_s for begin_s, _, _ in spans), default=0.0))
    last = int(8 * max((end_s for _, end_s, _ in spans), default=0.0))
    cells = 0
    for cell in range(first, last):
        kinds = {kind for begin_s, end_s, kind in spans if 8 * begin_s <= cell and cell + 1 <= 8 * end_s}
        cells += "communication" in kinds and "compute" not in kinds
    return cells / 8


ON_THE_GRID = {
    label: spans
    for label, spans in CASES.items()
    if all(float(8 * edge).is_integer() for span in spans for edge in span[:2])
}


def test_nearly_all_cases_lie_on_a_grid():
    assert len(ON_THE_GRID) >= len(CASES) - 3


@pytest.mark.parametrize("label", ON_THE_GRID)
def test_what_is_expected_is_so_cell_by_cell(label):
    assert exposed_s(ON_THE_GRID[label]) == by_cells(ON_THE_GRID[label])


def test_by_hand():
    spans = [(0.1, 0.7, "compute"), (0.3, 1.1, "communication"), (1.7, 2.9, "communication")]
    assert exposed_s(spans) == pytest.approx(0.4 + 1.2)
    assert exposed_s(CASES["microseconds, after a minute"]) == pytest.approx(2e-6, rel=1e-4)
    assert union([(3, 4), (0, 2), (1, 1), (2, 3), (9, 9)]) == [(0, 4)]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_elsewhere(answer):
    spans = [(float(a % 7), float(a % 7 + a % 4), ("compute", "communication", "x")[a % 3]) for a in range(40)]
    assert float(answer(spans)) == pytest.approx(exposed_s(spans))


# -- as it is written late in the evening ------------------------------------------------------------------------


def pieces(spans):
    edges = sorted({edge for begin_s, end_s, _ in spans for edge in (begin_s, end_s)})
    for left, right in pairwise(edges):
        yield left, right, {kind for a, b, kind in spans if a <= left and right <= b}


def edges_of_messages_alone(spans):
    """Cut at the edges of messages: computing that begins within a piece covers none of it."""
    edges = sorted({edge for a, b, kind in spans if kind == "communication" for edge in (a, b)})
    total_s = 0.0
    for left, right in pairwise(edges):
        kinds = {kind for a, b, kind in spans if a <= left and right <= b}
        total_s += (right - left) * ("communication" in kinds and "compute" not in kinds)
    return total_s


def begins_alone(spans):
    edges = sorted({begin_s for begin_s, _, _ in spans})
    return sum(
        right - left
        for left, right in pairwise(edges)
        if {kind for a, b, kind in spans if a <= left and right <= b} == {"communication"}
    )


def nothing_but_communication(spans):
    """Reading beside a message makes it no longer exposed."""
    return sum(right - left for left, right, kinds in pieces(spans) if kinds == {"communication"})


def one_of_two(spans):
    return sum(right - left for left, right, kinds in pieces(spans) if "compute" not in kinds)


def both(spans):
    return sum(r - left for left, r, kinds in pieces(spans) if {"communication", "compute"} <= kinds)


def strictly_inside(spans):
    """`<` in place of `<=`: no span covers a piece that begins where it does."""
    edges = sorted({edge for a, b, _ in spans for edge in (a, b)})
    total_s = 0.0
    for left, right in pairwise(edges):
        kinds = {kind for a, b, kind in spans if a < left and right < b}
        total_s += (right - left) * ("communication" in kinds and "compute" not in kinds)
    return total_s


def sort_in_a_row(spans):
    """Compares a message with the span after it only."""
    ordered = sorted(spans)
    total_s = 0.0
    for one, after in pairwise([*ordered, (1e9, 1e9, "end")]):
        if one[2] == "communication":
            total_s += (min(one[1], after[0]) if after[2] == "compute" else one[1]) - one[0]
    return total_s


def whole_numbers(spans):
    covered = {t for a, b, kind in spans if kind == "communication" for t in range(int(a), int(b))}
    busy = {t for a, b, kind in spans if kind == "compute" for t in range(int(a), int(b))}
    return float(len(covered - busy))


def as_share(spans):
    wall_s = max((b for _, b, _ in spans), default=1.0) - min((a for a, _, _ in spans), default=0.0)
    return exposed_of(spans) / wall_s


def exposed_of(spans):
    return sum(r - left for left, r, kinds in pieces(spans) if "communication" in kinds and "compute" not in kinds)


def in_milliseconds(spans):
    return 1e3 * exposed_of(spans)


def negative(spans):
    return -exposed_of(spans)


def counted(spans):
    return sum("communication" in kinds and "compute" not in kinds for *_, kinds in pieces(spans))


def list_of_pieces(spans):
    return [r - left for left, r, kinds in pieces(spans) if "communication" in kinds and "compute" not in kinds]


def prints(spans):
    print(exposed_of(spans))


def drops_twins(spans):
    """Counts each different message once: overlapping ones still twice."""
    return wrong_answers.messages_one_by_one(list(dict.fromkeys(spans)))


def first_and_last_message(spans):
    talking = [span for span in spans if span[2] == "communication"]
    if not talking:
        return 0.0
    begin_s, end_s = min(a for a, _, _ in talking), max(b for _, b, _ in talking)
    return exposed_of([(begin_s, end_s, "communication"), *(one for one in spans if one[2] == "compute")])


TIRED = [
    edges_of_messages_alone,
    begins_alone,
    nothing_but_communication,
    one_of_two,
    both,
    strictly_inside,
    sort_in_a_row,
    whole_numbers,
    as_share,
    in_milliseconds,
    negative,
    counted,
    list_of_pieces,
    prints,
    drops_twins,
    first_and_last_message,
]
TOLD = {
    "nothing_but_communication": "data-hides",
    "one_of_two": "idle-is-exposed",
    "both": "hidden-instead",
}


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_is_refused_and_told_nothing_untrue(answer):
    verdict = judged(EXPOSED, answer)
    assert verdict.status == "not yet"
    assert verdict.mistake == TOLD.get(answer.__name__), verdict


def test_the_first_mistakes_are_told_apart():
    """Two of them by the judge; the rest stands in the tests of all exercises."""
    for mistake in (EXPOSED.mistakes[6], EXPOSED.mistakes[11]):
        assert judged(EXPOSED, mistake.example).mistake == mistake.name


def test_a_tensor_and_an_int_are_numbers_too():
    assert judged(EXPOSED, lambda spans: torch.tensor(exposed_of(spans), dtype=torch.float64)).passed
    assert judged(EXPOSED, lambda spans: exposed_of(spans) or 0).passed
