"""The list scheduler beside the best table of small sizes, beside bounds, and beside the published program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from course_lib.cost import simulate
from course_lib.schedules import (
    Action,
    Schedule,
    StageTimes,
    list_schedule,
    peak_in_flight,
    placement,
    validate,
    zero_bubble_auto,
)

ONE, LONG_I, LONG_W, SLOW = StageTimes(1, 1, 1), StageTimes(1, 1.5, 0.5), StageTimes(0.8, 1, 1.3), StageTimes(2, 2, 2)
STAGES = {
    "equal": lambda p: [ONE] * p,
    "long I": lambda p: [LONG_I] * p,
    "long W": lambda p: [LONG_W] * p,
    "slow last": lambda p: [ONE] * (p - 1) + [SLOW],
    "slow first": lambda p: [SLOW] + [ONE] * (p - 1),
}


def step_s(schedule: Schedule, times: Sequence[StageTimes]) -> float:
    return simulate(schedule, times).makespan_s


def rows_within(m: int, limit: int) -> Iterator[str]:
    """All orders of F, I and W of one rank that take micro-batches in turn and keep to the limit."""

    def go(row: str) -> Iterator[str]:
        if len(row) == 3 * m:
            yield row
        f, i, w = (row.count(kind) for kind in "FIW")
        if f < m and f - w < limit:
            yield from go(row + "F")
        if i < f:
            yield from go(row + "I")
        if w < i:
            yield from go(row + "W")

    return go("")


def as_schedule(rows: Sequence[str], m: int) -> Schedule:
    made = [
        [Action(kind, stage, row[:place].count(kind)) for place, kind in enumerate(row)]
        for stage, row in enumerate(rows)
    ]
    return Schedule("tried", m, placement(len(rows)), tuple(map(tuple, made)))


def best_s(times: Sequence[StageTimes], m: int, limit: int) -> float:
    """The shortest step of all tables that take micro-batches in turn."""
    tables = (as_schedule(rows, m) for rows in itertools.product(list(rows_within(m, limit)), repeat=len(times)))
    return min(step_s(table, times) for table in tables if not validate(table))


def bound_s(times: Sequence[StageTimes], m: int, limit: int) -> float:
    """A time below which no table is: by the work of a rank, and by how often a rank's memory turns over."""
    found = []
    for stage, own in enumerate(times):
        above, below = times[:stage], times[stage:]
        way_s = sum(one.forward_s + one.input_s for one in below) + own.weight_s  # from F to the end of W
        ahead_s = sum(one.forward_s for one in above)
        back_s = min(own.weight_s, sum(one.input_s for one in above)) if above else 0.0
        work_s = m * (own.forward_s + own.input_s + own.weight_s)
        found += [ahead_s + way_s * -(-m // limit), ahead_s + work_s - own.weight_s + back_s]
    return max(found)


SMALL = [(1, 3, 1), (1, 3, 2), (2, 1, 1), (2, 2, 1), (2, 2, 2), (2, 3, 1), (2, 3, 2), (2, 3, 3), (3, 1, 1), (3, 2, 2)]


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(("p", "m", "limit"), SMALL)
def test_small_tables_are_nearly_the_best_of_all(p, m, limit, kind):
    times = STAGES[kind](p)
    found, best = step_s(list_schedule(times, m, limit), times), best_s(times, m, limit)
    assert bound_s(times, m, limit) - 1e-9 <= best <= found + 1e-9
    assert found <= 1.1 * best


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("p", [1, 2, 3, 4, 6])
def test_each_table_is_valid_and_keeps_to_its_limit(p, kind):
    times = STAGES[kind](p)
    for m, limit in itertools.product((1, 3, 8), sorted({1, 2, p, 2 * p})):
        made = list_schedule(times, m, limit)
        assert validate(made, max_in_flight=limit) == ()
        assert (made.num_ranks, made.num_stages, made.num_micro_batches) == (p, p, m)
        assert max(peak_in_flight(made)) <= limit
        assert step_s(made, times) >= bound_s(times, m, limit) - 1e-9


@pytest.mark.parametrize("times", [ONE, LONG_I, LONG_W])
def test_it_is_shorter_than_the_published_program_where_memory_is_small(times):
    found = {limit: _beside(times, 6, 12, limit) for limit in (2, 6)}
    assert found[2] < 0.8
    assert 0.95 < found[6] < 1.15


def _beside(times: StageTimes, p: int, m: int, limit: int) -> float:
    made, theirs = list_schedule([times] * p, m, limit), zero_bubble_auto(p, m, limit, times=times)
    return step_s(made, [times] * p) / step_s(theirs, [times] * p)


def test_memory_of_one_micro_batch_is_one_after_the_other():
    times = [ONE, SLOW, LONG_I]
    assert step_s(list_schedule(times, 5, 1), times) == pytest.approx(bound_s(times, 5, 1))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([], 2, 2), "num_ranks=0"),
        (([ONE], 0, 2), "num_micro_batches=0"),
        (([ONE], 2, 0), "max_in_flight=0"),
        (([ONE] * 30, 1000, 30), "30 stages and num_micro_batches=1000 make 30,000 forwards"),
    ],
)
def test_what_cannot_be_is_refused(args, words):
    with pytest.raises(ValueError, match=words):
        list_schedule(*args)
