"""Zero bubble schedules in the simulator: the paper's formula for ZB-H2, and what its heuristic comes to."""

from __future__ import annotations

import itertools

import pytest
from published_pipelines import PUBLISHED, rows_of

from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.schedules import validate, zero_bubble_auto, zero_bubble_h2
from course_lib.schedules.stage_times import StageTimes

ONE = StageTimes(1.0, 1.0, 1.0)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(("p", "m", "f", "i", "w"), [row[:5] for row in PUBLISHED])
def test_zb_h2_waits_as_long_as_the_papers_formula_says(p, m, f, i, w):
    """Section 2 of the same paper, its B being our I: (p - 1) (T_F + T_B - 2 T_W); with equal times nothing at all."""
    plan, left = simulate(zero_bubble_h2(p, m), StageTimes(f, i, w)), (p - 1) * (f + i - 2 * w)
    assert plan.bubble_rate == pytest.approx(left / (m * (f + i + w) + left))
    assert simulate(zero_bubble_h2(p, m), ONE).bubble_rate == pytest.approx(0)
    assert set(plan.peak_in_flight) == {2 * p - 1}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("row", rows_of())
def test_the_zero_bubble_columns_of_table_5(row):
    p, m, f, i, w, message, _, _, r_h1, _, r_h2, r_1p, r_2p, as_over_h = row
    times, link, share = StageTimes(f, i, w), Link(message, float("inf")), 32 / (34 + 5 * as_over_h)

    def rate(max_in_flight: int, weight_share: float) -> float:
        made = zero_bubble_auto(p, m, max_in_flight, times=times, message_s=message, weight_share=weight_share)
        if weight_share == 1:  # until then the validator counts
            assert validate(made, max_in_flight=max_in_flight) == ()
        return simulate(made, times, link=link).bubble_rate

    h2 = simulate(zero_bubble_h2(p, m), times, link=link).bubble_rate
    found = (h2, rate(p, share), rate(2 * p, share))
    assert found == pytest.approx((r_h2, r_1p, r_2p), abs=1e-4)
    assert r_1p == r_h1
    if p * m < 1000:  # what else must hold, where it is quick
        assert rate(2 * p, share) < rate(2 * p, 1.0) < h2 < rate(p, 1.0)
        assert rate(3 * p, 1.0) <= rate(2 * p, 1.0)


def test_a_search_keeps_to_its_memory_for_all_times():
    for p, m, limit in itertools.product((1, 2, 3, 5), (1, 2, 4, 7, 12), (1, 2, 4, 10)):
        for times in (ONE, StageTimes(1, 1.3, 0.7), StageTimes(2, 1, 3)):
            made = zero_bubble_auto(p, m, limit, times=times, message_s=0.3)
            assert validate(made, max_in_flight=limit) == ()
    assert [zero_bubble_auto(4, 8, limit).name for limit in (4, 8, 6)] == [
        "ZB-1p",
        "ZB-2p",
        "ZB, 6 in flight",
    ]
    assert simulate(zero_bubble_auto(4, 8, 8), ONE).bubble_rate == pytest.approx(0)


@pytest.mark.parametrize(
    ("p", "m", "limit", "times", "message", "busy"),
    [  # without one of the three ways that are tried, in their order, it would be 104, 84 and 312
        (5, 5, 8, StageTimes(9, 1, 2), 1.0, 100),
        (3, 5, 4, StageTimes(7, 2, 7), 0.5, 83),
        (6, 18, 9, StageTimes(9, 1, 7), 0.0, 310),
    ],
)
def test_each_way_that_is_tried_is_of_use_somewhere(p, m, limit, times, message, busy):
    made = zero_bubble_auto(p, m, limit, times=times, message_s=message)
    rows = simulate(made, times, link=Link(message, float("inf"))).rows
    assert max(row[-1].end_s - row[0].start_s for row in rows) == pytest.approx(busy)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: zero_bubble_auto(2, 2, 0), "max_in_flight=0 does not work"),
        (lambda: zero_bubble_auto(2, 2, 2, message_s=-1.0), "message_s is -1.0; it must be zero or more"),
        (lambda: zero_bubble_auto(2, 2, 2, weight_share=1.5), "from 0 to 1. The nearest is 1"),
        (
            lambda: zero_bubble_auto(30, 1000, 30),
            "30,000 forwards to place in eight ways.*Take 666 micro",
        ),
    ],
)
def test_what_cannot_be_searched_for_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
