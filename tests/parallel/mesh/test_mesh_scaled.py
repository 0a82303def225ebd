"""Plans that run for real: the right steps under the waits, the bytes and states that were promised, and the words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from course_lib.cluster import Cluster, RankError
from course_lib.cost.mesh.layout_step import NodeShape
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer, TransformerConfig
from course_lib.parallel.mesh import PacedTransformer, paced_model, regret, run_plan
from course_lib.parallel.mesh.scaled_down_job import _row_s

SMALL = TransformerConfig(vocab_size=64, context_length=8, num_layers=2, width=16, num_heads=2)
NODES = NodeShape(2, Link(0.0, 200e6), Link(0.0, 100e6))
JOB = ScaledJob(config=SMALL, batch_size=8, forward_s=0.02, nodes=NODES)


@pytest.fixture(scope="module")
def four():
    with Cluster(4, timeout_s=120) as cluster:
        yield cluster


@pytest.mark.parametrize("text", ["dp_replicate=2 tp=2", "pp=2 dp_shard=2"])
def test_a_plan_runs_and_holds_what_was_promised(four, text):
    mesh = Mesh.parse(text)
    run = run_plan(four, JOB, mesh, num_steps=2)
    assert len(run.steps_s) == 2
    assert run.state_bytes == JOB.state_bytes(mesh)
    assert min(run.steps_s) >= 3 * JOB.forward_s / 4  # what a rank computes


def test_the_slow_link_lies_between_nodes(four):
    slow = ScaledJob(config=SMALL, batch_size=8, forward_s=0.0, nodes=NodeShape(2, Link(), Link(0.0, 40e3)))
    mesh = Mesh.of(dp_replicate=2, tp=2)
    run = run_plan(four, slow, mesh, num_steps=1)
    assert run.step_s >= 0.9 * slow.played(mesh).step_s > 0.3  # on a shaped link no message comes early
    played = slow.played(mesh)
    assert run.waited_s["dp_replicate"] > 0.9 * played.waited_s["dp_replicate"] > 9 * played.waited_s["tp"]


@pytest.mark.parametrize("text", ["dp_replicate=4", "pp=2 tp=2", "dp_shard=2 tp=2"])
def test_a_rank_computes_as_long_as_is_promised(text, monkeypatch):
    mesh, told_s = Mesh.parse(text), []
    monkeypatch.setattr(paced_model, "pace", lambda me, time_s: told_s.append(time_s))
    model = PacedTransformer(SimpleNamespace(rank=0), SMALL, row_s=_row_s(JOB, mesh))
    rows = JOB.batch_size // mesh.size("dp_replicate", "dp_shard")
    model(torch.zeros(rows, 8, dtype=torch.int64)).sum().backward()
    assert len(told_s) == 2 * SMALL.num_layers
    assert sum(told_s) / mesh.size("pp") == pytest.approx(JOB.played(mesh).compute_s)


def test_where_a_step_went_is_told_by_axis(four):
    links = NodeShape(2, Link(0.0, 2e6), Link(0.0, 0.5e6))
    job = ScaledJob(config=SMALL, batch_size=8, forward_s=0.04, nodes=links)
    mesh = Mesh.of(pp=2, dp_replicate=2)
    run, played = run_plan(four, job, mesh, num_steps=1), job.played(mesh)
    assert run.waited_s.keys() == played.waited_s.keys()
    assert run.waited_s["dp_replicate"] > 0.9 * played.waited_s["dp_replicate"] > 0
    computed_s = run.timeline.time_s(kind="compute") / 4
    assert computed_s >= played.compute_s  # a wait is never shorter than it was told to be
    assert computed_s + sum(run.waited_s.values()) <= run.step_s * 1.05
    assert {span.name for span in run.timeline.spans} == {"forward", "backward", "pp", "dp_replicate", "loss"}


def test_the_timeline_is_that_of_one_step(four):
    run = run_plan(four, JOB, Mesh.of(dp_shard=4), num_steps=3)
    forwards = [span for span in run.timeline.spans if span.name == "forward"]
    assert len(forwards) == 4 * SMALL.num_layers  # of one step


def _gradients(me, paced):
    torch.manual_seed(0)
    model = PacedTransformer(me, SMALL, row_s=1e-4) if paced else Transformer(SMALL)
    tokens = torch.arange(16).view(2, 8)
    torch.manual_seed(1)
    model.init_weights()
    model(tokens).logsumexp(-1).mean().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_waits_change_no_gradient(four):
    waited, plain = (four.call(_gradients, (paced,), show=False)[0] for paced in (True, False))
    assert list(waited) == list(plain)
    assert all(torch.equal(waited[name], plain[name]) for name in plain)


def test_a_mesh_of_other_ranks_is_refused(four):
    with pytest.raises(RankError, match="has 2 ranks, and this job has 4"):
        run_plan(four, JOB, Mesh.of(tp=2))


def test_no_steps_are_refused(four):
    with pytest.raises(ValueError, match="num_steps"):
        run_plan(four, JOB, Mesh.of(dp_shard=4), num_steps=0)


def test_a_regret_is_what_the_bet_costs_beside_the_best():
    times_s = {"a": 0.3, "b": 0.2}
    assert regret(times_s, "b") == 0
    assert regret(times_s, "a") == pytest.approx(0.5)
    with pytest.raises(ValueError, match="the bet is 'c', and the plans with a time are a, b"):
        regret(times_s, "c")
