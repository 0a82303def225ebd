"""A scaled-down job: what its formula and the played step say, what fits, and what is refused."""

from __future__ import annotations

import pytest

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute, layout_step_s, ring_s
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.models import TransformerConfig

SMALL = TransformerConfig(vocab_size=64, context_length=16, num_layers=4, width=64, num_heads=4)
NODES = NodeShape(2, within=Link(0.0, 20e6), between=Link(0.0, 2e6))
JOB = ScaledJob(config=SMALL, batch_size=32, forward_s=0.24, nodes=NODES, memory_bytes=2e6)


def test_the_work_is_that_of_the_model():
    assert JOB.work == StepCompute(4, 0.06, 32 * 16 * 64 * 4, 825_600)


@pytest.mark.parametrize("text", ["dp_replicate=4", "dp_replicate=2 tp=2"])
def test_without_a_pipeline_formula_and_played_step_are_near(text):
    mesh = Mesh.parse(text)
    assert JOB.formula_s(mesh) == pytest.approx(JOB.played(mesh).step_s, rel=0.05)


@pytest.mark.parametrize("text", ["pp=4", "pp=2 dp_replicate=2", "pp=2 tp=2"])
def test_of_a_pipeline_the_formula_hides_no_message(text):
    mesh = Mesh.parse(text)
    assert JOB.cut(mesh).micro_batches == 2 * mesh.size("pp")
    assert JOB.formula_s(mesh) > JOB.played(mesh).step_s


def test_a_rank_computes_its_share_in_every_plan():
    for text in ("dp_shard=4", "pp=4", "pp=2 tp=2"):
        assert JOB.played(Mesh.parse(text)).compute_s == pytest.approx(3 * 0.24 / 4)


def test_memory_says_what_fits():
    assert not JOB.fits(Mesh.of(dp_replicate=4))
    assert JOB.fits(Mesh.of(dp_shard=4))
    assert 2 * JOB.state_bytes(Mesh.of(pp=2, dp_replicate=2)) > JOB.state_bytes(Mesh.of(dp_replicate=4))
    assert JOB.state_bytes(Mesh.of(dp_shard=4)) < JOB.state_bytes(Mesh.of(dp_replicate=4)) / 3


def test_ranks_that_fill_no_nodes_are_refused():
    with pytest.raises(ValueError, match=r"3 ranks do not fill nodes of 2; the nearest that do are 4\."):
        JOB.network(3)


def test_a_formula_has_one_order_of_the_axes():
    with pytest.raises(
        ValueError, match=r"tp=2 dp_replicate=2 has its axes in another order .* Use dp_replicate=2 tp=2"
    ):
        JOB.formula_s(Mesh.of(tp=2, dp_replicate=2))


def test_a_ring_of_one_sends_nothing():
    assert ring_s(1, Link(1.0, 1.0), 8.0) == 0
    assert layout_step_s(StepCompute(1, 1.0, 8.0, 8.0), Cut(), NodeShape(1, Link(1.0, 1.0), Link(1.0, 1.0))) == 3.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: StepCompute(0, 1.0, 1.0, 1.0), "layers"),
        (lambda: StepCompute(1, -1.0, 1.0, 1.0), "forward_s"),
        (lambda: Cut(pp=0), "pp"),
        (lambda: Cut(buckets=0), "buckets"),
        (lambda: NodeShape(0, Link(), Link()), "ranks_per_node"),
        (lambda: ScaledJob(config=SMALL, batch_size=1, forward_s=-1.0, nodes=NODES), "forward_s"),
    ],
)
def test_sizes_that_cannot_be_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
