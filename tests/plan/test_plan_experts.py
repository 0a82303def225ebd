"""Experts that ranks have shared out: no other rank holds them, so sharding cannot cut them once more."""

from __future__ import annotations

import pytest

from course_lib.plan.estimate.dp_comm_time import data_axis
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memory import MemoryParts, expert_copies, memory_parts
from course_lib.plan.estimate.step_time import step_parts
from course_lib.plan.inputs.cluster import cluster_of
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.models import MODELS
from course_lib.plan.inputs.software import Software
from course_lib.plan.search.listing import list_layouts

MIXTRAL = MODELS["mixtral-8x7b"]
EXPERTS = 32 * 8 * 3 * 4096 * 14336  # numbers of all experts
OTHERS = MIXTRAL.parameters - EXPERTS - MIXTRAL.hidden  # the last norm is not counted on a rank
JOB = Job(MIXTRAL, 4096, 64)


def memory(layout: Layout) -> MemoryParts:
    return memory_parts(JOB, layout, cluster_of("8xh100", gpus=layout.gpus), Constants(), Software())


@pytest.mark.parametrize(
    ("layout", "copies"),
    [
        (Layout(dp=8, ep=8, sharding=1), 1),  # each rank's expert is its own
        (Layout(dp=16, ep=8, sharding=1), 2),
        (Layout(dp=8, cp=2, ep=8, sharding=1), 2),  # context ranks hold the same experts
        (Layout(dp=16, ep=8, sharding=3, shard_size=8), 1),
        (Layout(dp=16, ep=2, sharding=3, shard_size=8), 4),
        (Layout(dp=16, ep=4, sharding=3, shard_size=2), 1),
        (Layout(dp=8, ep=1, sharding=1), 8),
        (Layout(dp=8, ep=8), 1),
    ],
)
def test_experts_are_shared_out_among_the_ranks_that_hold_the_same(layout: Layout, copies: int) -> None:
    assert expert_copies(layout) == copies


@pytest.mark.parametrize("dp", [8, 16])
def test_optimizer_states_of_all_ranks_are_those_of_the_model_and_no_fewer(dp: int) -> None:
    found = memory(Layout(dp=dp, ep=8, sharding=1)).optimizer_bytes
    assert found == pytest.approx(12 * (OTHERS / dp + EXPERTS / dp))
    assert found * dp == pytest.approx(12 * MIXTRAL.parameters, rel=1e-6)


def test_gradients_and_weights_too_and_whole_experts_are_not_gathered() -> None:
    found = memory(Layout(dp=8, ep=8, sharding=3))
    layer = MIXTRAL.layer_parameters - EXPERTS / 32
    table = MIXTRAL.embedding_parameters
    assert found.gradients_bytes == pytest.approx(6 * (OTHERS + EXPERTS) / 8)
    assert found.weights_bytes == pytest.approx(2 * (OTHERS + EXPERTS) / 8 + 2 * 2 * layer + (2 + 4) * table)
    twice = memory(Layout(dp=16, ep=8, sharding=3))  # now an expert's halves come together for a layer
    gathered = 2 * 2 * (layer + EXPERTS / 32 / 8)
    assert twice.weights_bytes == pytest.approx(2 * (OTHERS + EXPERTS) / 16 + gathered + (2 + 4) * table)


def sent_s(layout: Layout) -> float:
    cluster = cluster_of("8xh100", gpus=layout.gpus)
    return data_axis(MIXTRAL, layout, cluster, Constants(), Software(bucket_bytes=0), 32, 0.0, 1.0).exposed_s


def test_an_expert_without_a_copy_sends_nothing_over_the_data_axis() -> None:
    cluster = cluster_of("8xh100", gpus=8)
    all_of_them = Group.of(cluster, Constants(), 8, 1)
    wanted_s = all_of_them.all_gather_s(4 * OTHERS) + all_of_them.all_gather_s(2 * OTHERS)
    assert sent_s(Layout(dp=8, ep=8, sharding=1)) == pytest.approx(wanted_s)


def test_an_expert_with_two_copies_goes_to_the_other_one() -> None:
    cluster = cluster_of("8xh100", gpus=16)
    all_of_them, pairs = Group.of(cluster, Constants(), 16, 1), Group.of(cluster, Constants(), 2, 8)
    mine = EXPERTS / 8
    wanted_s = all_of_them.all_reduce_s(4 * OTHERS) + pairs.all_reduce_s(4 * mine)
    assert sent_s(Layout(dp=16, ep=8)) == pytest.approx(wanted_s)


def test_the_optimizer_passes_over_the_experts_that_a_rank_has() -> None:
    layout, cluster = Layout(dp=8, ep=8, sharding=1), cluster_of("8xh100", gpus=8)
    found = step_parts(JOB, layout, cluster, Constants(), Software()).optimizer_s
    rate = cluster.memory_bandwidth_bytes_per_s * Constants().memory_share
    assert found == pytest.approx(34 * (OTHERS + EXPERTS) / 8 / rate)


def test_mixtral_does_not_fit_on_one_machine_of_80_gb() -> None:
    """47 billion parameters of 18 bytes are 105 GB a GPU, whatever the layout."""
    cluster = cluster_of("8xh100")
    assert list_layouts(JOB, cluster, Constants(), Software()).best is None
    assert list_layouts(JOB, cluster.with_gpus(16), Constants(), Software()).best is not None
