"""Cells with a forward and a backward that overlap: what they need, how long they take, and what is wrong with them."""

from __future__ import annotations

import pytest

from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.schedules import (
    Action,
    Overlap,
    check,
    dual_pipe_v,
    from_text,
    in_flight_counts,
    peak_in_flight,
    validate,
)
from course_lib.schedules.stage_times import StageTimes

PAIR = "F0 F1 F2&B0 B1 B2\nF0 F1&B0 B1 F2 B2"  # two stages; rank 1 has F1 and B0 at the same time
V = "F0.0 F1.0 F0.3 F1.3&B0.3 B0.0 B1.3 B1.0\nF0.1 F0.2 F1.1 F1.2 B0.2 B0.1 B1.2 B1.1"


def test_a_cell_of_two_is_one_column_and_two_actions():
    schedule = from_text(PAIR, name="pair")
    both = Overlap(Action("F", 0, 2), Action("B", 0, 0))
    assert schedule.actions[0][2] == both
    assert (str(both), both.short, schedule.label(both)) == ("F2.0&B0.0", "F2&B0", "F2&B0")
    assert [str(a) for a in schedule.rows[0]] == ["F0.0", "F1.0", "F2.0", "B0.0", "B1.0", "B2.0"]
    assert [(column, action.short) for rank, column, action in schedule.cells if rank == 1][1:3] == [
        (1, "F1"),
        (1, "B0"),
    ]
    assert in_flight_counts(schedule)[1] == (1, 2, 2, 1, 1, 1)
    assert from_text(str(schedule)) == schedule
    alone = schedule.one_by_one()
    assert (alone.rows, alone.actions) == (schedule.rows, schedule.rows)
    assert alone.one_by_one() is alone
    assert {a.kind for _, _, a in schedule.forward_only().cells} == {"F"}
    assert validate(schedule.forward_only(), forward_only=True) == () == validate(schedule)


def test_a_column_of_an_aligned_table_holds_both():
    aligned = from_text(PAIR).aligned()
    assert str(aligned).splitlines()[1:] == [
        "0: F0    F1    .     F2&B0 B1    .     B2",
        "1: .     F0    F1&B0 B1    F2    B2",
    ]
    assert [len(cells) for cells in aligned.in_cells[0]] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("F0 B0&F1 B1", "rank 0, cell 2: in B0.0&F1.0 no forward and whole backward overlap; write F&B"),
        ("F0 F1&F2 B0 B1 B2", "rank 0, cell 2: in F1.0&F2.0 no forward"),
        ("F0 F1&I0 W0 B1", "rank 0, cell 2: in F1.0&I0.0 no forward"),
        ("F0 F1&B1 B0", "stage 0 (rank 0) runs B1 beside its F1"),
        ("F0&B1 F1 B0", "stage 0 (rank 0) runs B1 before its F1"),
        ("F0 F1&B0 B0 B1", "stage 0 (rank 0) runs B0 twice (cells 2 and 3)"),
        # One by one it could run: F1 would leave rank 0 before B0 comes.
        (
            "F0 F1&B0 B1\nF0 F1 B0 B1",
            "a deadlock, in which a ring of ranks waits for ever: stage 0 (rank 0) waits at F1.0&B0.0 for B0 of "
            "stage 1 (rank 1), stage 1 (rank 1) waits at F1 for F1 of stage 0 (rank 0)",
        ),
    ],
)
def test_what_cannot_overlap_gets_a_sentence(text, sentence):
    schedule = from_text(text, name="mine")
    first = validate(schedule)[0]
    assert str(first).startswith(sentence)
    with pytest.raises(ValueError, match="The schedule 'mine' cannot run"):
        check(schedule)
    if first.reason == "deadlock":
        assert validate(schedule.one_by_one()) == ()
        assert schedule.aligned().one_by_one().rows == schedule.rows  # an editor can draw it all the same
        with pytest.raises(ValueError, match="never ends: a deadlock"):
            simulate(schedule, StageTimes(1, 1, 1, overlapped_s=2))


def test_the_limit_of_memory_counts_both():
    problem = validate(from_text(PAIR), max_in_flight=[3, 1])[0]
    assert (problem.reason, problem.rank, problem.column) == ("memory", 1, 1)


def test_when_two_that_overlap_begin_and_end():
    """Rank 1's cell waits for F1, which comes at 2; both its results are there when it ends."""
    schedule = from_text(PAIR)
    one_by_one = simulate(schedule, StageTimes(1, 1, 1))
    assert [(s.action.short, s.start_s, s.end_s) for s in one_by_one.rows[1]][:3] == [
        ("F0", 1, 2), ("F1", 2, 3), ("B0", 3, 5)
    ]  # fmt: skip
    assert one_by_one.rows == simulate(schedule.one_by_one(), StageTimes(1, 1, 1)).rows
    both = simulate(schedule, StageTimes(1, 1, 1, overlapped_s=2.5), link=Link(0.5, float("inf")))
    assert [(s.action.short, s.start_s, s.end_s) for s in both.rows[1]][:3] == [
        ("F0", 1.5, 2.5), ("F1", 2.5, 5), ("B0", 2.5, 5)
    ]  # fmt: skip
    assert [(s.action.short, s.start_s, s.end_s) for s in both.rows[0]][2:4] == [("F2", 5.5, 8), ("B0", 5.5, 8)]
    assert both.compute_s == (2 + 2.5 + 4, 1 + 2.5 + 2 + 1 + 2)  # both at once count once
    mixed = simulate(schedule, [StageTimes(1, 1, 1, overlapped_s=2), StageTimes(1, 1, 1)])
    assert mixed.rows[1][1:3] == one_by_one.rows[1][1:3]
    apart = simulate(dual_pipe_v(1, 2), [StageTimes(1, 1, 1, overlapped_s=s) for s in (3, 5)]).rows[0]
    assert [s.end_s - s.start_s for s in apart if s.action in (Action("F", 1, 1), Action("B", 0, 0))] == [
        4,
        4,
    ]
    v = from_text(V, rank_of_stage=(0, 1, 1, 0))
    uneven = [StageTimes(1, 1, 1, overlapped_s=s) for s in (9, 9, 9, 3)]
    found = next(s for s in simulate(v, uneven).rows[0] if s.action == Action("F", 3, 1))
    assert found.end_s - found.start_s == 3
    assert validate(v) == ()


@pytest.mark.parametrize(("p", "m"), [(2, 4), (3, 9), (4, 8), (6, 12)])
def test_dual_pipe_v_waits_as_its_authors_formula_says(p, m):
    """(p - 1) (F&B + B - 3 W) for the rank that waits longest: github.com/deepseek-ai/DualPipe, where PP is our 2p."""
    for both_s in (2.0, 2.5, 3.0):
        plan = simulate(dual_pipe_v(p, m), StageTimes(1, 1, 1, overlapped_s=both_s))
        assert plan.makespan_s - min(plan.compute_s) == pytest.approx((p - 1) * (both_s + 2 - 3))
    assert set(peak_in_flight(dual_pipe_v(p, m))) == {2 * p + 1}


def test_one_by_one_dual_pipe_v_waits_for_the_stagger_alone():
    plan = simulate(dual_pipe_v(4, 8), StageTimes(1, 1, 1))
    assert plan.idle_share == pytest.approx(0.0588, abs=5e-5)
    assert plan.idle_share == pytest.approx(3 / 51)


def test_times_of_a_part_and_of_no_sense():
    times = StageTimes(1, 2, 3, overlapped_s=4).divided(2)
    assert (times.overlapped_s, times.time_s("B")) == (2, 2.5)
    with pytest.raises(ValueError, match="overlapped_s is -1; it must be zero or more"):
        StageTimes(1, 1, 1, overlapped_s=-1)
