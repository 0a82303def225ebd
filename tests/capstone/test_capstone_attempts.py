"""Attempts: memory that is enforced, expected peaks beside weighed ones, failures as results, points, refusals."""

from __future__ import annotations

from dataclasses import replace

import cheats
import pytest
import torch
from test_capstone_cheats import JOB, run_of

from course_lib.capstone.attempts.attempting import attempt, links_of
from course_lib.capstone.attempts.record import recorded
from course_lib.capstone.attempts.references import reference, reference_mesh
from course_lib.capstone.jobs.expected import between_bytes, expected
from course_lib.capstone.jobs.job import CapstoneJob, job_for
from course_lib.capstone.jobs.peak import peak_bytes
from course_lib.capstone.jobs.planning import best_expected, best_plan, yardstick
from course_lib.capstone.jobs.points import PointsStep, no_points, points_of
from course_lib.capstone.jobs.result import Known, Sent, Values
from course_lib.capstone.running.on_mesh import assemble_on
from course_lib.cost.mesh.layout_step import NodeShape
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.models import TransformerConfig

CONFIG = TransformerConfig(vocab_size=64, context_length=8, num_layers=4, width=48, num_heads=4)
FOUR = CapstoneJob(
    level=2,
    seed=1,
    job=ScaledJob(
        config=CONFIG, batch_size=16, forward_s=0.02, nodes=NodeShape(2, within=Link(), between=Link(0.0, 5e7))
    ),
    ranks=4,
    nodes=2,
    memory_bytes=10_000_000,
    budget_s=10.0,
)


@pytest.mark.long
@pytest.mark.parametrize("text", ["pp=2 tp=2", "dp_shard=4", "pp=2 dp_replicate=2", "dp_replicate=2 tp=2"])
def test_what_a_mesh_holds_and_sends_is_what_was_expected(clusters, text):
    mesh = Mesh.parse(text)
    result = attempt(FOUR, assemble_on(mesh), clusters(4), num_timed=1, show=False)
    assert (result.faults, result.ended, result.words) == ((), "", text)
    assert result.values.share < 1e-4
    assert result.peak_bytes == pytest.approx(peak_bytes(FOUR.job, mesh), rel=0.15)
    assert result.sent.between_bytes == between_bytes(FOUR.job, mesh)
    axes = {axis for axis in mesh.axes if mesh.size(axis) > 1}
    assert axes <= set(result.sent.by_axis) <= axes | {"all ranks"}
    assert result.sent.within_bytes + result.sent.between_bytes == sum(result.sent.by_axis.values())
    assert {span.name for span in result.timeline.spans} >= axes | {"forward", "backward"}
    assert result.paced_s == pytest.approx(expected(FOUR.job, mesh).real_s, rel=0.1)
    assert result.paced_s <= min(result.steps_s)


@pytest.mark.long
def test_what_a_refused_attempt_has_put_into_a_module_is_gone_at_the_next(two):
    def leaves(me, task):
        import builtins

        builtins.kept = [bytearray(100_000) for _ in range(20)]
        return run_of("Honest")(me, task)

    first = attempt(JOB, leaves, two, num_timed=1, show=False)
    assert {fault.name for fault in first.faults} == {"hidden memory"}
    assert attempt(JOB, run_of("Honest"), two, num_timed=1, show=False).faults == ()


def test_a_function_that_a_wrong_attempt_has_changed_is_the_old_one_at_the_next(two):
    def changes(me, task):
        cheats.Honest.average = lambda self: None
        return run_of("Honest")(me, task)

    assert not attempt(JOB, changes, two, num_timed=1, show=False).values.are_equal
    assert attempt(JOB, run_of("Honest"), two, num_timed=1, show=False).values.are_equal


def test_a_run_that_holds_too_much_is_ended_and_told_by_part(two):
    small = replace(JOB, memory_bytes=300_000)
    result = attempt(small, run_of("Honest"), two, num_timed=1, show=False)
    assert "may hold 300,000: " in result.ended
    assert "parameter" in result.ended
    assert result.memory[0].peak_bytes > 300_000
    assert sum(result.memory[0].parts.values()) == result.memory[0].peak_bytes
    assert (result.total, result.passed, result.values, result.step_s) == (0, False, None, None)
    assert result.ended in str(result)


def test_a_storage_behind_a_small_view_counts_whole(two):
    result = attempt(JOB, run_of("BehindAView"), two, num_timed=1, show=False)
    assert "other 4 MiB" in result.ended


def test_more_in_a_step_that_is_not_weighed_ends_the_run_too(two):
    tight = replace(JOB, memory_bytes=1_000_000)
    result = attempt(tight, run_of("WhenWeighed"), two, num_timed=1, show=False)
    assert "tensors between two steps" in result.ended


class Catches(cheats.Honest):
    """Goes on where the limit was crossed."""

    def step(self):
        try:
            return super().step()
        except Exception:
            return 0.0


def test_who_catches_the_limit_is_ended_all_the_same(two):
    def assemble(me, task):
        return Catches(me, task)

    result = attempt(replace(JOB, memory_bytes=300_000), assemble, two, num_timed=1, show=False)
    assert "may hold 300,000" in result.ended


def stub(me, task):
    raise NotImplementedError("Your turn: put the run together.")


def broken(me, task):
    return 1 // 0


def stateless(me, task):
    run = cheats.Honest(me, task)
    run.whole_state = lambda: None
    return run


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("assemble", "said"),
    [
        (stub, "not attempted: stub is not written yet"),
        (broken, "ZeroDivisionError"),
        (stateless, "whole_state\\(\\) gave a NoneType"),
    ],
)
def test_what_fails_is_a_result_that_says_why(two, assemble, said):
    result = attempt(JOB, assemble, two, num_timed=1, show=False)
    assert pytest.raises(ValueError, match=said).matches(ValueError(result.ended))
    assert result.total == 0


class Untold(cheats.Honest):
    """Gradients are never averaged: ranks train apart."""

    def average(self):
        pass


def test_wrong_weights_have_no_points_and_are_no_cheat(clusters):
    def assemble(me, task):
        return Untold(me, task)

    result = attempt(JOB, assemble, clusters(2), num_timed=1, show=False)
    assert result.faults == ()
    assert not result.values.are_equal
    assert result.total == 0
    assert result.values.where in result.points[0].why


def test_a_cluster_of_another_size_is_refused(clusters):
    with pytest.raises(ValueError, match=r"the job needs 4 ranks, and this cluster has 2; give it shared_cluster\(4\)"):
        attempt(FOUR, assemble_on(Mesh.of(pp=4)), clusters(2))
    with pytest.raises(ValueError, match="assemble is of type Mesh; give a function"):
        attempt(FOUR, Mesh.of(pp=4), clusters(4))


def test_links_are_the_jobs_own():
    links = links_of(FOUR)
    assert (links.link(0, 1), links.link(1, 2)) == (FOUR.job.nodes.within, FOUR.job.nodes.between)


def test_a_reference_is_the_best_expected():
    job = replace(job_for(2, 4), memory_bytes=job_for(2, 4).memory_bytes + 1)  # of which nothing is recorded
    assert reference(job).__name__ == str(best_expected(job))


# -- points ---------------------------------------------------------------------------------------------------------

BEST = Known("pp=4", 0.2, 1000, "best real run")
BUDGET = replace(FOUR, budget_s=0.23)


def told(share=0.0, paced_s=0.2, clock_s=0.5, between_bytes=1000):
    values = Values(share, 1.0, 1e-3, "a", (), ())
    sent = Sent({}, 0, between_bytes, ())
    return {part.part: part for part in points_of(BUDGET, values, 10, sent, PointsStep(clock_s, paced_s), BEST)}


def points(**facts):
    return {part: one.points for part, one in told(**facts).items()}


def test_all_points_for_a_run_as_good_as_the_best():
    assert points() == {"values": 40, "peak memory": 20, "bytes": 10, "step time": 30}
    assert points(paced_s=0.19, between_bytes=900) == points()
    assert points(paced_s=0.21)["step time"] == 30


def test_bytes_and_time_cost_points_by_how_much_they_are_more():
    assert points(between_bytes=2000)["bytes"] == 5
    assert points(between_bytes=0)["bytes"] == 10
    assert points(paced_s=0.23)["step time"] == 27
    assert points(paced_s=0.3)["step time"] == 8, "past the budget half of the points are left"
    assert points(paced_s=0.4)["step time"] == 0


def test_the_clock_of_a_busy_machine_costs_no_points():
    assert points(clock_s=50.0) == points()
    assert "200 ms a step of computing and messages (50 s by the clock" in told(clock_s=50.0)["step time"].why
    assert points(clock_s=0.4, paced_s=None)["step time"] == 0, "it is all that is known"
    assert "clock" not in told(paced_s=None)["step time"].why


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("level", "seeds"),
    [
        *((level, (7,)) for level in (1, 2, 3)),
        *(pytest.param(level, range(10), marks=pytest.mark.long) for level in (1, 2, 3)),
    ],
)
def test_the_reference_of_every_job_gets_all_points_and_is_within_the_budget(level, seeds):
    """With what its mesh is expected to send and to take; and past the budget are those that the level is about."""
    for seed in seeds:
        job = job_for(level, seed)
        mesh = reference_mesh(job)
        one, best = expected(job.job, mesh), yardstick(job, recorded(job))
        sent = Sent({}, 0, between_bytes(job.job, mesh), ())
        step = PointsStep(1.0, one.real_s)
        given = points_of(job, Values(0.0, 1.0, 1e-3, "a", (), ()), 10, sent, step, best)
        assert sum(part.points for part in given) == 100, (seed, given)
        assert one.real_s < job.budget_s
        blind = {2: Mesh(mesh.axes[::-1], mesh.shape[::-1]), 3: best_plan(job).mesh}.get(level)
        if blind is not None:
            assert expected(job.job, blind).real_s > 1.02 * job.budget_s, (seed, blind)


def test_what_is_held_against_is_the_best_real_run_played():
    job = job_for(2, 4)
    searched = Known("pp=2 tp=2", 0.9, 1, "run here")
    mesh = Mesh.parse("pp=2 tp=2")
    found = yardstick(job, searched)
    assert found == Known(
        "pp=2 tp=2",
        expected(job.job, mesh).real_s,
        between_bytes(job.job, mesh),
        "best of the meshes that were run",
    )
    assert yardstick(job, None).mesh == str(best_expected(job))
    assert yardstick(job, replace(searched, mesh="my own")).step_s == 0.9


@pytest.mark.parametrize("share", [0.1, float("nan")])
def test_wrong_weights_take_all_points(share):
    assert set(points(share=share).values()) == {0}


def test_no_points_say_why():
    assert {part.why for part in no_points("it rained")} == {"it rained"}
    assert sum(part.most for part in no_points("")) == 100


def test_reference_values_follow_pytorchs_adamw():
    from course_lib.capstone.running.reference_run import on_one_device
    from course_lib.capstone.running.task import ADAMW, batch_of, plain_model
    from course_lib.models import next_token_loss

    model, (tokens, targets) = plain_model(JOB).double(), batch_of(JOB)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    for _ in range(3):
        optimizer.zero_grad()
        next_token_loss(model(tokens), targets).backward()
        optimizer.step()
    for name, tensor in on_one_device(JOB, 3).after.items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-10, atol=1e-12)
