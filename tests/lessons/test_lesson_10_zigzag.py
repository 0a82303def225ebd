"""The judge of 10.zigzag: what it accepts of other orders, what it refuses, and in which words."""

from __future__ import annotations

import pytest
import torch
from answers.lesson_10.right.zigzag import ANSWERS, by_boundaries
from answers.lesson_10.wrong import zigzag as wrong_zigzag

from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_10.zigzag import ZIGZAG, fault_in, step_pairs
from course_lib.learn.exercises.lesson_10.zigzag.labels import SIZES


def dealt(answer, num_ranks, num_tokens):
    return [[int(one) for one in answer(rank, num_ranks, num_tokens)] for rank in range(num_ranks)]


@pytest.mark.parametrize("order", ["zigzag", "contiguous"])
@pytest.mark.parametrize(("num_ranks", "num_tokens"), [(4, 64), (3, 20), (4, 6), (1, 7)])
def test_pairs_are_those_of_the_library(order, num_ranks, num_tokens):
    cut = SequenceCut(num_tokens, num_ranks, order)
    parts = [cut.positions(place) for place in range(num_ranks)]
    for step in range(num_ranks):
        assert step_pairs(parts, step) == [
            cut.num_pairs(place, (place - step) % num_ranks) for place in range(num_ranks)
        ]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_at_sizes_that_the_check_does_not_try(answer):
    for num_ranks in range(1, 8):
        for num_tokens in (*range(1, 30), 61, 128):
            assert fault_in(dealt(answer, num_ranks, num_tokens), num_tokens) == ""


def test_the_librarys_order_keeps_the_promise_and_the_contiguous_one_does_not():
    for num_ranks, num_tokens in [sizes for sizes in SIZES if sizes[1]]:
        cut = SequenceCut(num_tokens, num_ranks)
        assert fault_in([cut.positions(place) for place in range(num_ranks)], num_tokens) == ""
    quarters = SequenceCut(64, 4, "contiguous")
    assert fault_in([quarters.positions(place) for place in range(4)], 64)


def test_even_in_sum_is_not_even_in_every_step():
    """Three ranks whose pairs in sum are nearly alike, but not in each step."""
    parts = [[*range(0, 14), *range(41, 47)], list(range(21, 41)), [*range(14, 21), *range(47, 60)]]
    sums = [sum(own) for own in zip(*(step_pairs(parts, step) for step in range(3)), strict=True)]
    assert max(sums) - min(sums) > 0
    assert "in step" in fault_in(parts, 60)


FAULTS = [
    ([[0, 1, 6, 7], [2, 3, 4, 5]], ""),
    ([[2, 3, 4, 5], [0, 1, 6, 7]], ""),
    ([[0, 1, 6, 8], [2, 3, 4, 5]], "rank 0 has position 8, and positions are 0 to 7"),
    ([[-1, 0, 6, 7], [2, 3, 4, 5]], "rank 0 has position -1, and positions are 0 to 7"),
    ([[0, 1.0, 6, 7], [2, 3, 4, 5]], "rank 0 has 1.0 among its positions, which is no whole number"),
    ([[False, 1, 6, 7], [2, 3, 4, 5]], "rank 0 has False among its positions, which is no whole number"),
    ([[0, 1, 6, 7], [2, 3, 5, 4]], "rank 1 has position 5 before 4, and they are to rise"),
    ([[0, 0, 6, 7], [2, 3, 4, 5]], "rank 0 has position 0 twice"),
    ([[0, 1, 6, 7], [1, 2, 3, 4, 5]], "position 1 is with rank 0 and with rank 1"),
    ([[0, 1, 6, 7], [2, 3, 4]], "no rank has position 5"),
    ([[0, 1, 7], [2, 3, 4]], "no rank has position 5, and 1 more is missing"),
    ([[0, 1], [2, 3, 4]], "no rank has position 5, and 2 more are missing"),
    ([[0, 3, 4, 7], [1, 2, 5, 6]], "the positions of rank 0 make 3 runs, and 2 are the most"),
    ([[0, 1, 2, 3, 4, 5], [6, 7]], "rank 0 has 6 positions and rank 1 has 2: more than 2 apart"),
    (
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        "in step 1 of the ring rank 1 computes 16 pairs and rank 0 computes 0: more than 12 apart",
    ),
]


@pytest.mark.parametrize(("parts", "said"), FAULTS)
def test_what_is_wrong_is_said(parts, said):
    assert fault_in(parts, 8) == said


# -- as they are written late in the evening --------------------------------------------------------------------


def cut(rank, num_ranks, num_tokens, parts):
    ends = [part * num_tokens // (2 * num_ranks) for part in range(2 * num_ranks + 1)]
    return [position for part in parts for position in range(ends[part], ends[part + 1])]


def neighbours(rank, n, length):
    return cut(rank, n, length, (2 * rank, 2 * rank + 1))


def counted_down(rank, n, length):
    return list(reversed(by_boundaries(rank, n, length)))


def last_rank_first(rank, n, length):
    return cut(rank, n, length, (2 * (n - 1 - rank), 2 * (n - 1 - rank) + 1))


def quarters_swapped(rank, n, length):
    return cut(rank, n, length, (rank, n + (rank + 1) % n))


def halves(rank, n, length):
    return [
        *range(rank * length // (2 * n), (rank + 1) * length // (2 * n)),
        *range(length - (rank + 1) * length // (2 * n), length - rank * length // (2 * n) - 1),
    ]


def stop_is_last(rank, n, length):
    return by_boundaries(rank, n, length)[:-1]


def from_one(rank, n, length):
    return [position + 1 for position in by_boundaries(rank, n, length)]


def as_floats(rank, n, length):
    return [float(position) for position in by_boundaries(rank, n, length)]


def four_ranks_only(rank, n, length):
    return cut(rank, n, length, (rank, 7 - rank)) if n == 4 else neighbours(rank, n, length)


def pairs_of_stripes(rank, n, length):
    return [t for t in range(length) if (t // 2) % n == rank]


def a_mask(rank, n, length):
    own = set(by_boundaries(rank, n, length))
    return [t in own for t in range(length)]


def as_text(rank, n, length):
    return " ".join(map(str, by_boundaries(rank, n, length)))


def a_set(rank, n, length):
    return set(by_boundaries(rank, n, length))


def two_ranges(rank, n, length):
    return [range(one, one + 1) for one in by_boundaries(rank, n, length)]


def only_even(rank, n, length):
    return by_boundaries(rank, n, length) if length % (2 * n) == 0 else []


def middle_lost(rank, n, length):
    """The back parts are counted from the end, so that what // leaves over is missing in the middle."""
    size = length // (2 * n)
    return [*range(rank * size, (rank + 1) * size), *range(length - (rank + 1) * size, length - rank * size)]


def parts_beside(rank, n, length):
    """Parts of which the first ones are longer, two neighbours to a rank: up to two positions more."""
    parts = torch.arange(length).tensor_split(2 * n)
    return torch.cat(parts[2 * rank : 2 * rank + 2])


def by_chunk_from_behind(rank, n, length):
    parts = torch.arange(length).chunk(2 * n)
    return [*parts[rank], *parts[-1 - rank]]


def by_chunk(rank, n, length):
    parts = torch.arange(length).chunk(2 * n)
    return torch.cat([parts[rank], parts[2 * n - 1 - rank]])


def two_tensors(rank, n, length):
    parts = torch.arange(length).tensor_split(2 * n)
    return parts[rank], parts[-1 - rank]


def never_ends(rank, n, length):
    position = rank
    while True:
        yield position
        position += 1


TIRED = {
    neighbours: "contiguous",
    counted_down: "falls",
    last_rank_first: "contiguous",
    quarters_swapped: None,
    halves: None,
    stop_is_last: None,
    from_one: None,
    as_floats: None,
    four_ranks_only: None,
    pairs_of_stripes: None,
    a_mask: None,
    as_text: None,
    a_set: None,
    two_ranges: "two-lists",
    only_even: None,
    never_ends: None,
    middle_lost: "drops-the-rest",
    parts_beside: "contiguous",
    by_chunk: "chunk",
    by_chunk_from_behind: None,
    two_tensors: "two-lists",
}


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_told_what_is_so(answer):
    verdict = judged(ZIGZAG, answer)
    assert not verdict.passed
    assert verdict.mistake == TIRED[answer]


SAID = [
    (lambda rank, n, length: None, "nothing came back (`None`)"),
    (lambda rank, n, length: 3, "expected a list of positions such as [0, 1, 2] for rank 0, got 3"),
    (lambda rank, n: [rank], "TypeError"),
    (as_floats, "rank 0 has 0.0 among its positions, which is no whole number"),
    (a_mask, "rank 0 has True among its positions, which is no whole number"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_no_list_of_positions_is_said(answer, said):
    verdict = judged(ZIGZAG, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_the_example_of_what_is_forbidden_is_right_otherwise():
    for num_ranks, num_tokens in [sizes for sizes in SIZES if sizes[1]]:
        assert fault_in(dealt(wrong_zigzag.by_the_library, num_ranks, num_tokens), num_tokens) == ""
