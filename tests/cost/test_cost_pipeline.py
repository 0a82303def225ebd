"""Simulated pipelines: a published table, an independent simulator, the formulas, and cases worked by hand."""

from __future__ import annotations

import gc
import random
from itertools import pairwise

import pytest
from pipeline_formulas import AT_MOST, pipeline_idle_share, pipeline_peak_in_flight
from published_pipelines import rows_of

from course_lib.cost.collectives.network import Network
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.schedules import (
    SCHEDULES,
    Action,
    Schedule,
    from_text,
    get_schedule,
    gpipe,
    interleaved,
    naive,
    one_f_one_b,
    virtual_stages_of,
    zero_bubble_h1,
    zero_bubble_v,
)
from course_lib.schedules.stage_times import StageTimes

ONE = StageTimes(1.0, 1.0, 1.0)


def latency(seconds: float) -> Link:
    return Link(seconds, float("inf"))


@pytest.mark.parametrize(
    ("p", "m", "f", "i", "w", "message", "layers", "r_1f1b", "r_h1", "r_inter"),
    rows_of(10),
)
def test_a_published_table_comes_out(p, m, f, i, w, message, layers, r_1f1b, r_h1, r_inter):
    times, link, v = StageTimes(f, i, w), latency(message), (layers + 2) // p

    def rate(schedule: Schedule, times: StageTimes) -> float:
        return simulate(schedule, times, link=link).bubble_rate

    assert rate(one_f_one_b(p, m), times) == pytest.approx(r_1f1b, abs=5.1e-5)
    assert rate(zero_bubble_h1(p, m), times) == pytest.approx(r_h1, abs=5.1e-5)
    # A virtual stage takes 1/v of a stage. The paper's rate is lower by what the next line leaves out.
    assert 0 < rate(interleaved(p, m, v), times.divided(v)) - r_inter < 0.004
    optimistic = by_hand(interleaved(p, m, v), [times.divided(v)] * p * v, message, wraps_wait=False)
    cost = max(optimistic.values())
    assert (cost - m * (f + i + w)) / cost == pytest.approx(r_inter, abs=5.1e-5)


def by_hand(
    schedule: Schedule, times: list[StageTimes], message: float, *, wraps_wait: bool = True
) -> dict[Action, float]:
    """When each action ends, for messages of pure latency: sweep over the ranks until all is done.

    Without ``wraps_wait`` only the first micro-batch of each group of p waits for the way from the last rank to the
    first (and back), as in the program behind the paper's table.
    """
    p, last = schedule.num_ranks, schedule.num_stages - 1
    ends: dict[Action, float] = {}
    places, free = [0] * p, [0.0] * p
    while len(ends) < len(schedule.cells):
        for rank, row in enumerate(schedule.rows):
            while places[rank] < len(row):
                kind, s, i = action = row[places[rank]]
                before = [Action("F", s, i)] if kind in "BI" else [Action("I", s, i)] if kind == "W" else []
                if kind == "F" and s > 0:
                    before.append(Action("F", s - 1, i))
                if kind in "BI" and s < last:
                    before.append(
                        Action(
                            "I" if Action("I", s + 1, i) in schedule.rows[rank_of(schedule, s + 1)] else "B",
                            s + 1,
                            i,
                        )
                    )
                if not wraps_wait and i % p:
                    before = [b for b in before if abs(rank_of(schedule, b.stage) - rank) < p - 1]
                if any(b not in ends for b in before):
                    break
                hops = [message * (rank_of(schedule, b.stage) != rank) for b in before]
                start = max([free[rank], *(ends[b] + hop for b, hop in zip(before, hops, strict=True))])
                ends[action] = free[rank] = start + times[s].time_s(kind)
                places[rank] += 1
    return ends


def rank_of(schedule: Schedule, stage: int) -> int:
    return schedule.rank_of_stage[stage]


@pytest.mark.parametrize("kind", SCHEDULES)
def test_times_agree_with_an_independent_simulator(kind):
    rng = random.Random(kind)
    for p, m in [(1, 2), (2, 1), (2, 5), (3, 4), (4, 8), (4, 6)]:
        schedule = get_schedule(kind, p, m)
        times = [StageTimes(*(rng.uniform(0.5, 2) for _ in range(3))) for _ in range(schedule.num_stages)]
        message = rng.choice([0.0, 0.3, 3.0])
        result = simulate(schedule, times, link=latency(message), message_bytes=7.0)
        wanted = by_hand(schedule, times, message)
        assert {span.action: span.end_s for span in result.spans} == pytest.approx(wanted)
        assert all(
            s.end_s - s.start_s == pytest.approx(times[s.action.stage].time_s(s.action.kind)) for s in result.spans
        )
        assert result.makespan_s == pytest.approx(max(wanted.values()))
        # No pipeline is faster than its busiest rank, nor than one micro-batch there and back.
        way = sum(t.forward_s + t.input_s for t in times) + message * 2 * sum(
            rank_of(schedule, s) != rank_of(schedule, s + 1) for s in range(schedule.num_stages - 1)
        )
        assert result.makespan_s >= max(*result.compute_s, way) - 1e-9
        assert all(a.end_s <= b.start_s + 1e-12 for row in result.rows for a, b in pairwise(row))


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("kind", SCHEDULES)
def test_formulas_agree_with_the_simulation(kind):
    for p in (1, 2, 3, 4, 6):
        for m in (1, 2, 3, 4, 5, 7, 8, 11, 13):
            for v in (1, 2, 3) if SCHEDULES[kind].virtual_stages == "any" else (None,):
                schedule = get_schedule(kind, p, m, num_virtual_stages=v)
                for times in (ONE, StageTimes(1, 1, 0.5), StageTimes(2, 1.5, 1)):
                    result = simulate(schedule, times.divided(virtual_stages_of(kind, v)))
                    peaks = pipeline_peak_in_flight(kind, p, m, num_virtual_stages=v)
                    if kind in AT_MOST or (kind == "zb_v" and m < 2 * p - 1):
                        peaks = tuple(map(min, peaks, result.peak_in_flight))
                    assert result.peak_in_flight == peaks
                    holds = {
                        "zb_h1": m >= p,
                        "zb_h2": m >= 2 * p - 1,
                        "zb_1p": m >= p and times == ONE,
                        "zb_2p": m >= p and times == ONE,
                        "zb_v": m >= 2 * p - 1 and times == ONE,
                        "dualpipe_v": m >= 2 * p and times == ONE,
                    }.get(kind, True)
                    if holds:
                        share = pipeline_idle_share(kind, p, m, num_virtual_stages=v, times=times)
                        assert result.idle_share == pytest.approx(share)


def test_formulas_of_the_textbook():
    assert pipeline_idle_share("gpipe", 4, 8) == pipeline_idle_share("1f1b", 4, 8) == pytest.approx(3 / 11)
    assert pipeline_idle_share("interleaved", 4, 8, num_virtual_stages=2) == pytest.approx(3 / (2 * 8 + 3))
    assert pipeline_idle_share("naive", 4, 8) == 3 / 4
    assert pipeline_idle_share("zb_h1", 4, 8) == pytest.approx(1 / 9)  # a third of the wait of 1F1B
    assert pipeline_peak_in_flight("1f1b", 4, 8) == (4, 3, 2, 1)
    assert pipeline_peak_in_flight("gpipe", 4, 8) == (8, 8, 8, 8)


@pytest.mark.parametrize("m", [1, 2, 4, 9])
def test_memory_is_as_theory_has_it(m):
    for p in (1, 2, 4):
        assert simulate(one_f_one_b(p, m), ONE).peak_in_flight_by_stage == tuple(min(p - s, m) for s in range(p))
        assert simulate(gpipe(p, m), ONE).peak_in_flight_by_stage == (m,) * p
        assert simulate(naive(p, m), ONE).peak_in_flight_by_stage == (1,) * p


def test_idle_shares_by_rank_and_by_span():
    result = simulate(one_f_one_b(2, 2), [StageTimes(1, 1, 1), StageTimes(1, 0.5, 0.5)])
    # rank 0: F0 0-1, F1 1-2, B0 3-5, B1 5-7; rank 1: F0 1-2, B0 2-3, F1 3-4, B1 4-5
    assert [(str(s.action), s.start_s, s.end_s) for s in result.rows[1]] == [
        ("F0.1", 1, 2), ("B0.1", 2, 3), ("F1.1", 3, 4), ("B1.1", 4, 5)
    ]  # fmt: skip
    assert (result.makespan_s, result.compute_s) == (7, (6, 4))
    assert result.idle_share_by_rank == pytest.approx((1 / 7, 3 / 7))
    assert result.idle_share == pytest.approx(2 / 7)
    assert result.bubble_rate == pytest.approx(1 / 7)
    # ZB-V leaves no gap within a rank, but later ranks start later.
    zero = simulate(zero_bubble_v(4, 8), ONE.divided(2))
    assert zero.bubble_rate == pytest.approx(0)
    assert zero.idle_share == pytest.approx(1.5 / 25.5)
    # A rank that starts at once and a pipeline without work are no special cases.
    assert simulate(naive(1), StageTimes(0, 0, 0)).idle_share == simulate(naive(1), ONE).bubble_rate == 0


def test_a_whole_backward_may_take_another_time_than_its_halves():
    times = StageTimes(1, 2, 3, backward_s=4)
    assert [times.time_s(kind) for kind in "FBIW"] == [1, 4, 2, 3]
    assert [times.divided(2).time_s(kind) for kind in "FBIW"] == [0.5, 2, 1, 1.5]
    assert [StageTimes.of(2.0, 1.5).time_s(kind) for kind in "FBIW"] == [2, 3, 1.5, 1.5]
    assert StageTimes.of(1.0).time_s("B") == 2


def test_messages_that_overlap_queue_for_the_bytes_and_not_for_the_latency():
    """Two forwards of 1 s on rank 0; a message has 10 s of bytes and 5 s of latency."""
    result = simulate(gpipe(2, 2).forward_only(), ONE, link=Link(5.0, 2.0), message_bytes=20.0)
    assert [(str(m.action), m.sender, m.receiver, m.start_s, m.end_s) for m in result.messages] == [
        ("F0.0", 0, 1, 1, 16), ("F1.0", 0, 1, 11, 26)
    ]  # fmt: skip
    assert [(s.start_s, s.end_s) for s in result.rows[1]] == [(16, 17), (26, 27)]
    assert [(s.start_s, s.end_s) for s in result.rows[0]] == [(0, 1), (1, 2)]


def test_messages_that_do_not_overlap_keep_sender_and_receiver_busy():
    """One second of forward, half a second of message, three stages."""
    result = simulate(gpipe(3, 2).forward_only(), ONE, link=latency(0.5), overlap=False)
    assert [(s.start_s, s.end_s) for s in result.rows[0]] == [(0, 1), (1.5, 2.5)]  # sends in between
    # rank 1 receives F0 1-1.5, runs it, sends it 2.5-3, and only then receives F1, which was sent 2.5-3
    assert [(s.start_s, s.end_s) for s in result.rows[1]] == [(1.5, 2.5), (3.5, 4.5)]
    assert [(s.start_s, s.end_s) for s in result.rows[2]] == [(3, 4), (5, 6)]
    assert result.compute_s == (2, 2, 2)
    assert result.idle_share_by_rank == pytest.approx((2 / 3,) * 3)
    for kind in SCHEDULES:
        schedule = get_schedule(kind, 3, 4)
        apart = simulate(schedule, ONE, link=latency(0.2), overlap=False).makespan_s
        assert apart >= simulate(schedule, ONE, link=latency(0.2)).makespan_s
        assert simulate(schedule, ONE, overlap=False).rows == simulate(schedule, ONE).rows


def test_each_boundary_and_each_link_may_differ():
    forward = gpipe(3, 1).forward_only()
    sizes = simulate(forward, ONE, link=Link(0.0, 1.0), message_bytes=[2.0, 5.0])
    assert [row[0].start_s for row in sizes.rows] == [0, 3, 9]
    network = Network.from_matrix([[1, 1, 1], [1, 1, 2], [1, 4, 1]], latency_s=0.0)
    both_ways = simulate(gpipe(3, 1), ONE, link=network, message_bytes=4.0)
    assert [row[0].start_s for row in both_ways.rows] == [0, 5, 8]
    assert [row[1].start_s for row in both_ways.rows] == [18, 12, 9]  # back: 1 s from rank 2 to 1, 4 s to 0
    v = simulate(zero_bubble_v(2, 1), ONE, link=latency(1.0))
    assert len(v.messages) == 4  # the turn of the V stays on its rank


def test_64_stages_and_1024_micro_batches():
    result = simulate(one_f_one_b(64, 1024), ONE)
    assert result.idle_share == pytest.approx(63 / (1024 + 63))


def test_the_search_for_garbage_is_as_it_was_after_a_simulation_and_after_a_refusal():
    stuck = one_f_one_b(2, 2)
    stuck = stuck.with_actions([row[::-1] for row in stuck.actions])
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            simulate(one_f_one_b(2, 2), ONE)
            assert gc.isenabled() == was_on
            with pytest.raises(ValueError, match="never ends"):
                simulate(stuck, ONE)
            assert gc.isenabled() == was_on
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simulate(gpipe(2, 1), [ONE]), "times for 1 stages, and 'GPipe' has 2"),
        (
            lambda: simulate(gpipe(3, 1), ONE, message_bytes=[1.0]),
            "message_bytes has 1 sizes for 2 boundaries",
        ),
        (
            lambda: simulate(gpipe(2, 1), ONE, message_bytes=-1.0),
            "message_bytes is -1.0; it must be zero or more",
        ),
        (lambda: StageTimes(1, -1, 1), "input_s is -1; it must be zero or more"),
        (lambda: StageTimes(1, 1, 1, -2), "backward_s is -2; it must be zero or more"),
        (lambda: StageTimes.of(1, -2), "backward_to_forward is -2"),
        (lambda: ONE.divided(0), "num_stages is 0; it must be a number above zero"),
        (
            lambda: simulate(from_text("F0 B0 F1 B1\nF0 F1 B0 B1"), ONE),
            "never ends: a deadlock, in which a ring of ranks waits for ever",
        ),
        (lambda: simulate(from_text("F0 B0\nF0"), ONE), "never ends: stage 1 .rank 1. never runs B0"),
        (
            lambda: simulate(from_text("F0\nF0.2 B0", rank_of_stage=(0, 1)), ONE),
            "cannot be simulated: rank 1, cell 1",
        ),
        (lambda: pipeline_idle_share("zbh1", 2, 2), "kind is 'zbh1'; it is one of .* mean 'zb_h1'"),
        (
            lambda: pipeline_idle_share("zb_h1", 4, 3),
            "ZB-H1 holds for m >= p and a W no longer than F and I only",
        ),
        (lambda: pipeline_idle_share("zb_h2", 4, 6), "ZB-H2 holds for m >= 2p - 1"),
        (lambda: pipeline_idle_share("zb_v", 4, 6), "ZB-V holds for m >= 2p - 1"),
        (lambda: pipeline_peak_in_flight("1f1b", 0, 3), "num_ranks=0 does not work"),
        (
            lambda: pipeline_peak_in_flight("1f1b", 2, 3, num_virtual_stages=2),
            "it puts one stage on a rank. Give 1",
        ),
    ],
)
def test_what_cannot_be_simulated_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
