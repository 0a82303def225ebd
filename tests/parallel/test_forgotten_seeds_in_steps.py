"""Replicas whose group is known in a step are compared at the first one; a mesh gives all ranks the values of one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from ddp_cases import message_of
from expert_cases import layer_of, tokens_of
from test_forgotten_seeds import NOTHING, TIED, drawn
from torch import nn

from course_lib.layouts.mesh import Mesh
from course_lib.meter import metered
from course_lib.models import Transformer
from course_lib.parallel.experts import ExpertParallel, average_gradients
from course_lib.parallel.mesh import MeshGroups, OnMesh
from course_lib.parallel.pipeline import Pipeline, joint_step
from course_lib.schedules import one_f_one_b

pytestmark = [
    pytest.mark.xdist_group("forgotten_seeds"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


def pipelines_side_by_side(me, odd: int | None, num_steps: int = 1) -> str:
    """Two pipelines of two stages; the untied weights of one rank may be drawn by another seed."""
    torch.manual_seed(me.rank == odd)
    group = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])][me.rank % 2]
    stages = [drawn(nn.Linear(3, 3)) for _ in range(2)]
    ranks = ([0, 1], [2, 3])[me.rank // 2]
    pipeline = Pipeline(me, stages, one_f_one_b(2, 2), nn.functional.mse_loss, ranks=ranks)

    def steps() -> None:
        for _ in range(num_steps):
            joint_step(pipeline, torch.ones(4, 3), torch.zeros(4, 3), group)

    return message_of(steps)


def test_replicas_of_a_pipeline_are_compared_at_their_first_average(cluster4):
    assert list(cluster4.call(pipelines_side_by_side, (None,))) == [NOTHING] * 4
    said = list(cluster4.call(pipelines_side_by_side, (3,)))
    assert said[0] == said[2] == NOTHING
    assert said[1] == said[3]
    assert said[1].startswith("ranks 1 and 3 differ in 1.weight (and 1 more): average_gradients needs the same model")


def test_and_at_no_later_one(cluster4):
    for num_steps in (1, 3):
        seen = metered(cluster4, pipelines_side_by_side, None, num_steps).communication
        by_average = [call for call in seen.construction if call.rank == 0 and call.operation == "all_gather"]
        assert [call.group for call in by_average] == [(0, 2)]
        assert seen.by_operation()["all_reduce"] == 4 * num_steps


def experts_on_a_mesh(me, odd: int | None, part: str, num_steps: int = 1) -> str:
    """Two groups of experts side by side, of which the second may have another router, or other experts."""
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, ep=2), together=[("dp_replicate", "ep")])
    whole = layer_of(num_experts=4)
    if odd == groups.coordinates["dp_replicate"]:
        nn.init.normal_(whole.get_parameter(part))
    layer = ExpertParallel(me, whole, group=groups.group("ep"))

    def steps() -> None:
        for _ in range(num_steps):
            layer(tokens_of(5)).sum().backward()
            average_gradients(layer, groups)

    said = message_of(steps)
    groups.close()
    return said


@pytest.mark.parametrize("part", ["router.weight", "experts.w_up"])
def test_replicas_of_experts_and_their_router_are_compared_at_their_first_average(cluster4, part):
    assert list(cluster4.call(experts_on_a_mesh, (None, part))) == [NOTHING] * 4
    said = list(cluster4.call(experts_on_a_mesh, (1, part)))
    if part == "router.weight":
        assert said == [said[0]] * 4
        assert said[0].startswith(
            "ranks 0, 1, 2 and 3 differ (0 and 1 against 2 and 3) in router.weight: average_gradi"
        )
    else:
        assert [one.partition(" in ")[0] for one in said] == [
            *("ranks 0 and 2 differ", "ranks 1 and 3 differ", "ranks 0 and 2 differ", "ranks 1 and 3 differ")
        ]


def test_averages_of_experts_compare_once(cluster4):
    counts = [
        len(metered(cluster4, experts_on_a_mesh, None, "router.weight", num_steps).communication.of(0).construction)
        for num_steps in (1, 3)
    ]
    assert counts == [3, 3]  # the layer over ep; its router over all; its experts over dp_replicate


# -- a mesh ----------------------------------------------------------------------------------------------------------


def on_a_mesh(me, mesh, odd: int | None) -> str:
    """Another model on one rank; another seed on each."""
    torch.manual_seed(me.rank)
    model = Transformer(replace(TIED, hidden=12) if me.rank == odd else TIED)
    return message_of(lambda: OnMesh(me, mesh, model))


@pytest.mark.parametrize("mesh", ["tp=2", "pp=2", "dp_shard=2"])
def test_a_mesh_takes_the_values_of_rank_0_and_refuses_another_model(cluster2, mesh):
    mesh = Mesh.parse(mesh)
    assert list(cluster2.call(on_a_mesh, (mesh, None))) == [NOTHING] * 2
    for said in cluster2.call(on_a_mesh, (mesh, 1)):
        assert said == (
            "rank 0 has blocks.0.mlp.w_up.weight (11, 8) torch.float32, trained where rank 1 has "
            "blocks.0.mlp.w_up.weight (12, 8) torch.float32, trained; build the same model on all ranks"
        )
