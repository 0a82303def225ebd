"""Attempts: memory that is enforced, expected peaks beside weighed ones, failures as results, points, refusals."""

from __future__ import annotations

from dataclasses import replace

import cheats
import pytest
import torch
from test_capstone_cheats import JOB, run_of

from course_lib.capstone.attempting import attempt, links_of
from course_lib.capstone.expected import between_bytes
from course_lib.capstone.job import CapstoneJob, job_for
from course_lib.capstone.on_mesh import assemble_on
from course_lib.capstone.peak import peak_bytes
from course_lib.capstone.planning import best_expected
from course_lib.capstone.points import no_points, points_of
from course_lib.capstone.references import reference
from course_lib.capstone.result import Known, Sent, Values
from course_lib.cost.layout_step import Nodes
from course_lib.cost.scaled_job import ScaledJob
from course_lib.link import Link
from course_lib.mesh import Mesh
from course_lib.models import TransformerConfig

CONFIG = TransformerConfig(vocab_size=64, context_length=8, num_layers=4, width=48, num_heads=4)
FOUR = CapstoneJob(
    level=2,
    seed=1,
    job=ScaledJob(
        config=CONFIG, batch_size=16, forward_s=0.02, nodes=Nodes(2, within=Link(), between=Link(0.0, 5e7))
    ),
    ranks=4,
    nodes=2,
    memory_bytes=10_000_000,
    budget_s=10.0,
)


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
    with pytest.raises(
        ValueError, match=r"the job is for 4 ranks, and this cluster has 2; give it shared_cluster\(4\)"
    ):
        attempt(FOUR, assemble_on(Mesh.of(pp=4)), clusters(2))
    with pytest.raises(ValueError, match="assemble is a Mesh; give a function"):
        attempt(FOUR, Mesh.of(pp=4), clusters(4))


def test_links_are_the_jobs_own():
    links = links_of(FOUR)
    assert (links.link(0, 1), links.link(1, 2)) == (FOUR.job.nodes.within, FOUR.job.nodes.between)


def test_a_reference_is_the_best_expected():
    job = job_for(2, 4)
    assert reference(job).__name__ == str(best_expected(job))


# -- points ---------------------------------------------------------------------------------------------------------

PLANNED = Known("pp=4", 0.2, 1000, "played by the planner")


def points(share=0.0, step_s=0.2, between_bytes=1000, real=None):
    values = Values(share, 1.0, 1e-3, "a", (), ())
    sent = Sent({}, 0, between_bytes, ())
    return {part.part: part.points for part in points_of(FOUR, values, 10, sent, step_s, PLANNED, real)}


def test_all_points_for_a_run_as_good_as_the_best():
    assert points() == {"values": 40, "peak memory": 20, "bytes": 10, "step time": 30}
    assert points(real=Known("tp=4", 0.19, 1000, "run"))["step time"] == 30


def test_bytes_and_time_cost_points_by_how_much_they_are_more():
    assert points(between_bytes=2000)["bytes"] == 5
    assert points(between_bytes=0)["bytes"] == 10
    assert 0 < points(step_s=0.3)["step time"] < 30
    assert points(step_s=0.5)["step time"] == 10  # within the budget
    assert points(step_s=20.0)["step time"] == 0
    assert points(step_s=0.3, real=Known("tp=4", 0.1, 1000, "run"))["step time"] == 10


@pytest.mark.parametrize("share", [0.1, float("nan")])
def test_wrong_weights_take_all_points(share):
    assert set(points(share=share).values()) == {0}


def test_no_points_say_why():
    assert {part.why for part in no_points("it rained")} == {"it rained"}
    assert sum(part.most for part in no_points("")) == 100


def test_reference_values_follow_pytorchs_adamw():
    from course_lib.capstone.task import ADAMW, batch_of, plain_model
    from course_lib.capstone.values import on_one_device
    from course_lib.models import next_token_loss

    model, (tokens, targets) = plain_model(JOB).double(), batch_of(JOB)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    for _ in range(3):
        optimizer.zero_grad()
        next_token_loss(model(tokens), targets).backward()
        optimizer.step()
    for name, tensor in on_one_device(JOB, 3).after.items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-10, atol=1e-12)
