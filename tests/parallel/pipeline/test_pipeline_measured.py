"""Pipelines on real ranks at a given pace, beside the simulator; and what ``course bench pipeline`` measures."""

from __future__ import annotations

import pytest
import torch

from course_lib.authoring.bench.strategies import pipeline as pipeline_module
from course_lib.authoring.bench.table import Table
from course_lib.cluster import Links
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.meter.clocks.stopwatch import Comparison, Measurement
from course_lib.parallel.pipeline import PacedStage, Pipeline, run_pipeline, run_pipeline_steps
from course_lib.parallel.pipeline.measured import _links
from course_lib.schedules import (
    Schedule,
    from_text,
    get_schedule,
    gpipe,
    interleaved,
    one_f_one_b,
    peak_in_flight_by_stage,
    zero_bubble_h1,
)
from course_lib.schedules.dependencies import result_of
from course_lib.schedules.stage_times import StageTimes

pytestmark = pytest.mark.xdist_group("pipeline")

TIMES = StageTimes(0.004, 0.004, 0.004)


# -- paced, beside the simulator -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule", [one_f_one_b(2, 3), zero_bubble_h1(2, 3), interleaved(2, 2, 2)], ids=lambda s: s.name
)
def test_what_was_measured_has_the_actions_of_the_plan_in_an_order_that_is_possible(cluster2, schedule):
    """No clock decides here but in one direction: nothing takes less than its pace, nor begins before what it needs."""
    plan, step = simulate(schedule, TIMES), run_pipeline(cluster2, schedule, TIMES, steps=1)
    assert [[span.action for span in row] for row in step.rows] == [[*row] for row in schedule.rows]
    assert [span.rank for row in step.rows for span in row] == [span.rank for row in plan.rows for span in row]
    ends_s = {result_of(span.action): span.end_s for span in step.spans}
    for row, needs in zip(step.rows, schedule.dependencies.needs, strict=True):
        for span, needed in zip(row, needs, strict=True):
            assert span.end_s - span.start_s >= TIMES.time_s(span.action.kind)
            assert all(ends_s[result] <= span.start_s for result in needed)
    assert step.spans[0].start_s == 0
    assert step.makespan_s >= plan.makespan_s
    assert 0 < step.idle_share < 1
    assert (step.schedule, step.messages, step.peak_in_flight) == (schedule, (), plan.peak_in_flight)


def test_each_stage_has_its_own_pace_and_a_link_delays_what_it_carries(cluster2):
    times = [TIMES, StageTimes(0.008, 0.0, 0.02)]
    for link in (Link(0.01), Link(0.01, float("inf"))):
        step = run_pipeline(cluster2, gpipe(2, 1), times, link=link, message_bytes=4000, steps=1)
        (first, back), (there, turn) = step.rows
        assert there.start_s - first.end_s >= 0.01
        assert back.start_s - turn.end_s >= 0.01
        assert turn.end_s - turn.start_s >= 0.02
        assert there.end_s - there.start_s >= 0.008


def test_a_link_that_takes_no_time_is_not_shaped():
    assert _links(None) == _links(Link()) == Links()
    assert _links(Link(0.0, 1e6)).default == Link(0.0, 1e6)


def test_of_several_steps_the_one_of_median_length_is_told(cluster2, monkeypatch):
    from course_lib.parallel.pipeline import measured

    steps = [simulate(gpipe(2, 2), StageTimes.of(time_s)) for time_s in (5, 1, 3)]
    monkeypatch.setattr(measured, "run_pipeline_steps", lambda *_args, **_options: steps)
    assert run_pipeline(cluster2, gpipe(2, 2), TIMES) is steps[2]


def test_all_steps_are_told_in_their_order(cluster2):
    steps = run_pipeline_steps(cluster2, gpipe(2, 1), StageTimes(0.001, 0.001, 0.001), steps=3)
    assert len(steps) == 3
    assert all(step.spans[0].start_s == 0 for step in steps)


CANNOT = Schedule("mine", 1, (0, 1), from_text("F0 B0\nB0 F0").rows)


@pytest.mark.parametrize(
    ("schedule", "times", "options", "said"),
    [
        (
            gpipe(4, 4),
            TIMES,
            {},
            "times for 4 stages and 2 ranks were given to 'GPipe', which has 4 stages on 4 ranks",
        ),
        (
            gpipe(2, 4),
            [TIMES],
            {},
            "times for 1 stages and 2 ranks were given to 'GPipe', which has 2 stages",
        ),
        (CANNOT, TIMES, {}, "runs B0 before its F0"),
        (gpipe(2, 4), TIMES, {"steps": 0}, "steps=0 does not work: steps is a whole number of at least 1"),
        (gpipe(2, 4), TIMES, {"message_bytes": 3}, "message_bytes=3 does not work: .* at least 4"),
        (
            gpipe(2, 4),
            StageTimes(0.1, 0.1, 0.1, 0.1),
            {},
            r"backward_s=0.1 cannot be paced: .* take .* = 0.2 s. Leave",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_rank_moves(cluster2, schedule, times, options, said):
    with pytest.raises(ValueError, match=said):
        run_pipeline(cluster2, schedule, times, **options)


def test_a_paced_stage_is_a_small_exact_model(cluster2):
    def learn(me):
        stages = [PacedStage(me, StageTimes(0.0, 0.0, 0.0), num_weights=4) for _ in range(2)]
        pipeline = Pipeline(me, stages, gpipe(2, 2), lambda output, _: output.mean())
        loss = pipeline.step(torch.ones(4, 3), torch.ones(4, 3))
        return loss, next(iter(pipeline.parameters())).grad.tolist()

    run = cluster2.run(learn)
    assert run[1][0] == 3.0  # 1 + 1 + 1
    assert run[0][1] == run[1][1] == [0.25] * 4
    with pytest.raises(ValueError, match="num_weights=0 does not work"):
        PacedStage(None, TIMES, num_weights=0)


# -- course bench pipeline ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_benchmark_pairs_steps_of_torch_and_of_the_course(cluster2):
    for comparison in cluster2.run(pipeline_module.paired_steps, "interleaved", 1, steps_in_a_turn=1):
        assert (comparison.first.name, comparison.second.name) == ("torch", "the course")
        assert len(comparison.first.times_s) == len(comparison.second.times_s) == 1


def test_the_benchmark_counts_activations_as_the_schedule_does(cluster2):
    by_rank = cluster2.run(pipeline_module.peaks, ("gpipe", "zb_v"), 3)
    for kind in ("gpipe", "zb_v"):
        found = {stage: peak for rank in by_rank for stage, peak in rank[kind].items()}
        assert found == dict(enumerate(peak_in_flight_by_stage(get_schedule(kind, 2, 3))))


def test_the_benchmark_makes_a_row_of_each_measurement(cluster2, monkeypatch):
    monkeypatch.setattr(pipeline_module, "_TIMES", StageTimes(0.001, 0.001, 0.001))
    table = Table("course bench pipeline")
    pipeline_module.add_paced(table, cluster2, "interleaved", 2, rounds=2)
    pipeline_module.add_peaks(table, cluster2)
    both = Comparison(Measurement("torch", (2.0, 4.0)), Measurement("the course", (1.0, 3.0)))
    pipeline_module.add_steps(table, "gpipe", both)
    rows = {row.what: row for row in table.rows}
    paced = rows["idle share off, interleaved 1F1B, 2 ranks x 2"]
    assert (len(paced.samples), paced.target) == (2, 0.02)
    assert set(rows["activations at the peak off, all schedules, 2 ranks"].samples) == {0}
    assert rows["step, GPipe: torch"].samples == (2000, 4000)
    assert (rows["step, GPipe: course / torch"].samples, rows["step, GPipe: course / torch"].target) == (
        (0.5, 0.75),
        1,
    )
