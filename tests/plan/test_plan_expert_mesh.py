"""Experts on a mesh of their own (``etp``): memory and time counted by hand, the rules, the search."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from course_lib.plan.estimate.dp_comm_time import data_axis
from course_lib.plan.estimate.layer_time import expert_calls, layer_pass, product_work
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memory import expert_copies, memory_parts
from course_lib.plan.estimate.step_time import StepParts, step_parts
from course_lib.plan.inputs.cluster import ClusterSpec, cluster_of
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.models import MODELS
from course_lib.plan.inputs.software import Software
from course_lib.plan.search.constraints import why_illegal
from course_lib.plan.search.listing import list_layouts
from course_lib.plan.search.search_space import candidates

MIXTRAL = MODELS["mixtral-8x7b"]
JOB, CONSTANTS = Job(MIXTRAL, 4096, 64), Constants()
EXPERT_LAYER = 8 * 3 * 4096 * 14336  # numbers of a layer's experts
EXPERTS = 32 * EXPERT_LAYER
ATTENTION = 32 * 2 * 4096 * (4096 + 1024)
SMALL = 32 * (2 * 4096 + 4096 * 8)  # two norms and a router in a layer, whole on every rank
TABLES = 2 * 32000 * 4096
FOLDED = Layout(tp=4, dp=2, ep=8, etp=1, sharding=1, sequence_parallel=True)
TWO_NODES = Layout(tp=4, dp=4, ep=8, etp=2, sharding=1, sequence_parallel=True)


def cluster(layout: Layout) -> ClusterSpec:
    return cluster_of("8xh100", gpus=layout.gpus)


def step(layout: Layout) -> StepParts:
    return step_parts(JOB, layout, cluster(layout), CONSTANTS, Software())


# -- who holds what -------------------------------------------------------------------------------------------------


def of_ranks(layout: Layout) -> list[tuple[int, int]]:
    """(block of experts, part of each) of every rank of a stage, in Megatron's order: parts fastest, then blocks."""
    ranks = range(layout.tp * layout.cp * layout.dp)
    return [(rank // layout.etp % layout.ep, rank % layout.etp) for rank in ranks]


@pytest.mark.parametrize(
    ("layout", "copies"),
    [
        (FOLDED, 1),
        (TWO_NODES, 1),
        (Layout(tp=4, dp=2, ep=4, etp=1, sequence_parallel=True), 2),
        (Layout(tp=2, cp=2, pp=2, dp=4, ep=4, etp=2, sequence_parallel=True), 2),
        (Layout(tp=8, ep=2, etp=1, sequence_parallel=True), 4),
        (Layout(dp=4, ep=1, etp=2), 2),
    ],
    ids=str,
)
def test_every_part_of_an_expert_is_on_as_many_ranks_as_are_told(layout: Layout, copies: int) -> None:
    assert why_illegal(JOB, layout, layout.gpus) is None
    holders = Counter(of_ranks(layout))
    assert set(holders.values()) == {copies} == {layout.expert_dp}
    assert len(holders) == layout.ep * layout.etp
    assert layout.tp * layout.cp * layout.dp == layout.etp * layout.ep * layout.expert_dp


@pytest.mark.parametrize(("sharding", "shard_size", "copies"), [(0, 0, 1), (1, 0, 4), (3, 2, 2), (3, 1, 1)])
def test_states_of_experts_are_shared_out_among_their_copies(sharding: int, shard_size: int, copies: int) -> None:
    layout = Layout(tp=4, dp=4, ep=4, etp=1, sharding=sharding, shard_size=shard_size, sequence_parallel=True)
    assert expert_copies(layout) == copies


# -- memory ---------------------------------------------------------------------------------------------------------


def test_memory_of_a_rank_is_what_one_counts() -> None:
    found = memory_parts(JOB, FOLDED, cluster(FOLDED), CONSTANTS, Software())
    dense, mine = (ATTENTION + TABLES) / 4 + SMALL, EXPERTS / 8
    assert found.weights_bytes == pytest.approx(2 * (dense + mine), rel=1e-12)
    assert found.gradients_bytes == pytest.approx(6 * (dense + mine), rel=1e-12)
    assert found.optimizer_bytes == pytest.approx(12 * (dense / 2 + mine), rel=1e-12)


def test_states_of_all_ranks_are_those_of_all_experts_and_no_fewer() -> None:
    layout = replace(FOLDED, ep=4)
    found = memory_parts(JOB, layout, cluster(layout), CONSTANTS, Software())
    dense = (ATTENTION + TABLES) / 4 + SMALL
    assert 8 * (found.optimizer_bytes / 12 - dense / 2) == pytest.approx(EXPERTS, rel=1e-12)
    assert 8 * (found.weights_bytes / 2 - dense) == pytest.approx(2 * EXPERTS, rel=1e-12)


def test_sharding_3_gathers_no_expert_that_has_no_copy() -> None:
    found = memory_parts(JOB, replace(FOLDED, sharding=3), cluster(FOLDED), CONSTANTS, Software())
    dense, layer, table = (ATTENTION + TABLES) / 4 + SMALL, (ATTENTION / 4 + SMALL) / 32, TABLES / 2 / 4
    assert found.weights_bytes == pytest.approx(2 * (dense / 2 + EXPERTS / 8) + 2 * 2 * layer + (2 + 4) * table)


def test_one_tensor_group_may_hold_copies_of_experts_and_shares_their_states_out() -> None:
    whole, shared = (Layout(tp=8, ep=4, etp=1, sharding=s, sequence_parallel=True) for s in (0, 1))
    assert why_illegal(JOB, shared, 8) is None
    mine, halved = (memory_parts(JOB, one, cluster(one), CONSTANTS, Software()) for one in (whole, shared))
    assert mine.optimizer_bytes - halved.optimizer_bytes == pytest.approx(12 * EXPERTS / 4 / 2)
    assert "here that is 1 rank" in (why_illegal(JOB, replace(shared, ep=8), 8) or "")


# -- time -----------------------------------------------------------------------------------------------------------


def test_rows_go_to_their_experts_where_the_group_lies() -> None:
    """A rank sends a quarter of 4,096 positions, twice, since a token meets two experts; 64 / 2 micro-batches."""
    sent_bytes = 2 * (4096 / 4) * 2 * 4096
    inside = Group.of(cluster(FOLDED), CONSTANTS, 8, 1)
    assert inside.levels == 0
    wanted_s = 32 * 32 * 2 * 2 * inside.all_to_all_s(sent_bytes)  # micro-batches, layers, passes, there and back
    assert step(FOLDED).expert_s == pytest.approx(wanted_s, rel=1e-12)


def test_ranks_that_cut_an_expert_put_their_rows_together() -> None:
    sent_bytes = 2 * (4096 / 4) * 2 * 4096
    among_nodes, pair = (Group.of(cluster(TWO_NODES), CONSTANTS, *place) for place in ((8, 2), (2, 1)))
    assert among_nodes.levels > 0
    forward_s = 2 * among_nodes.all_to_all_s(sent_bytes) + 2 * pair.all_gather_s(2 * sent_bytes)
    assert step(TWO_NODES).expert_s == pytest.approx(16 * 32 * 2 * forward_s, rel=1e-12)
    calls = expert_calls(JOB, TWO_NODES, cluster(TWO_NODES), CONSTANTS)
    assert [call.operation for call in calls] == ["all-to-all", "all-gather"]


def test_the_tensor_axis_carries_attention_alone() -> None:
    shared = replace(FOLDED, ep=2, etp=0)
    assert step(FOLDED).tensor_s == pytest.approx(step(shared).tensor_s / 2, rel=1e-12)


@pytest.mark.parametrize("etp", [1, 2, 4, 8])
def test_an_expert_computes_as_much_in_matrices_of_another_shape(etp: int) -> None:
    """Of 4,096 x 2 rows that four ranks have between them, a quarter each; ``etp`` ranks put theirs together."""
    folded, shared = (product_work(JOB, one) for one in (replace(FOLDED, ep=1, etp=etp), replace(FOLDED, ep=2, etp=0)))

    def moved(rows: float, width: float) -> float:
        into = rows * 4096 + 4096 * 2 * width + rows * 2 * width
        return 2 * (into + rows * width + width * 4096 + rows * 4096)

    assert folded.flops == pytest.approx(shared.flops, rel=1e-12)
    wanted = moved(4096 * 2 / 4 * etp, 14336 / etp) - moved(4096 * 2, 14336 / 4)
    assert folded.moved_bytes - shared.moved_bytes == pytest.approx(wanted, abs=1)


def sent_s(layout: Layout) -> float:
    software = Software(bucket_bytes=0)
    return data_axis(MIXTRAL, layout, cluster(layout), CONSTANTS, software, 32, 0.0, 1.0).exposed_s


@pytest.mark.parametrize(
    ("layout", "dense", "expert"),
    [  # size and stride of the groups that hold the same numbers
        (replace(FOLDED, sharding=0), (2, 4), (1, 8)),
        (replace(FOLDED, ep=2, sharding=0), (2, 4), (4, 2)),
        (Layout(tp=4, dp=4, ep=8, etp=1, sequence_parallel=True), (4, 4), (2, 8)),
        (Layout(tp=2, cp=2, dp=4, ep=4, etp=2, sequence_parallel=True), (8, 2), (2, 8)),
        (Layout(tp=8, ep=4, etp=1, sequence_parallel=True), (1, 8), (2, 4)),
    ],
    ids=str,
)
def test_gradients_of_experts_go_to_their_copies(
    layout: Layout, dense: tuple[int, int], expert: tuple[int, int]
) -> None:
    numbers = (ATTENTION + TABLES) / layout.tp + SMALL, EXPERTS / (layout.ep * layout.etp)
    groups = (Group.of(cluster(layout), CONSTANTS, *place) for place in (dense, expert))
    wanted_s = sum(group.all_reduce_s(4 * size) for group, size in zip(groups, numbers, strict=True))
    assert sent_s(layout) == pytest.approx(wanted_s, rel=1e-12)


def test_beside_data_ranks_alone_it_is_the_mesh_of_the_dense_layers_to_the_last_bit() -> None:
    for shared in (Layout(dp=16, ep=8, sharding=1), Layout(dp=16, ep=4, pp=2, sharding=3, micro_batch=2)):
        folded = replace(shared, etp=1)
        assert step(folded) == step(shared)
        assert memory_parts(JOB, folded, cluster(folded), CONSTANTS, Software()) == memory_parts(
            JOB, shared, cluster(shared), CONSTANTS, Software()
        )


def test_one_search_keeps_the_meshes_apart() -> None:
    dense = Layout(tp=4, dp=8, ep=8, sequence_parallel=True, sharding=1)
    layouts = [replace(dense, etp=etp) for etp in (0, 1, 2, 4)]
    found = list_layouts(JOB, cluster(dense), CONSTANTS, Software(), layouts=layouts)
    assert len(found.options) == 4
    for one in found.options:
        assert one.step == step(one.layout)
        assert one.memory == memory_parts(JOB, one.layout, cluster(dense), CONSTANTS, Software())
    assert len({layer_pass(JOB, one, cluster(dense), CONSTANTS, Software()).expert_s for one in layouts}) == 4


# -- the rules, and the search --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "model", "why"),
    [
        (replace(FOLDED, ep=1), "llama-3-8b", "etp=1 gives experts a mesh of their own, and this model has none"),
        (replace(FOLDED, ep=3), "mixtral-8x7b", "ep=3 does not divide the 8 experts: the nearest is 2"),
        (replace(FOLDED, ep=1, etp=3), "mixtral-8x7b", "does not divide an expert's width 14336: the nearest is 2"),
        (replace(FOLDED, ep=1, etp=16), "mixtral-8x7b", "does not divide the 8 GPUs of a stage: the nearest is 8"),
        (replace(FOLDED, etp=2), "mixtral-8x7b", "x etp=2 does not divide the 8 GPUs of a stage: the nearest ep is 4"),
        (replace(FOLDED, sequence_parallel=False), "mixtral-8x7b", "from all tp=4 ranks; sequence parallelism"),
        (
            replace(FOLDED, ep=4, dp=4, sharding=3, shard_size=1, tp=2),
            "mixtral-8x7b",
            "4 groups, and they do not divide the 2 copies of an expert: the nearest shard_size is 2",
        ),
    ],
)  # fmt: skip
def test_what_is_illegal_is_said(layout: Layout, model: str, why: str) -> None:
    assert why in (why_illegal(Job(MODELS[model], 4096, 64), layout, 8) or "")


def test_where_the_data_axis_is_too_short_for_ep_the_mesh_of_their_own_is_told_if_it_works() -> None:
    found = why_illegal(JOB, replace(FOLDED, etp=0), 8) or ""
    assert found == "ep=8 does not divide dp=2: the nearest is 2; or etp=1: then it divides tp x cp x dp=8"
    assert why_illegal(JOB, FOLDED, 8) is None
    found = why_illegal(JOB, replace(FOLDED, etp=0, tp=2), 4) or ""
    assert found == "ep=8 does not divide dp=2: the nearest is 2"


def test_the_nearest_that_is_told_is_legal() -> None:
    assert why_illegal(JOB, replace(FOLDED, ep=1, etp=2), 8) is None
    assert why_illegal(JOB, replace(FOLDED, ep=1, etp=8), 8) is None
    assert why_illegal(JOB, replace(FOLDED, ep=4, etp=2), 8) is None
    assert (
        why_illegal(JOB, Layout(tp=2, dp=4, ep=4, etp=1, sharding=3, shard_size=2, sequence_parallel=True), 8) is None
    )


def test_a_width_that_the_tensor_axis_does_not_divide_is_no_matter_to_whole_experts() -> None:
    odd = Job(replace(MIXTRAL, ffn=14338), 4096, 64)
    assert "does not divide the MLP's width" in (why_illegal(odd, replace(FOLDED, etp=0, ep=2), 8) or "")
    assert why_illegal(odd, FOLDED, 8) is None


def test_etp_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="etp"):
        Layout(etp=-1)


def test_a_search_has_such_meshes_where_they_are_asked_for() -> None:
    place = cluster_of("8xh100", gpus=16)
    assert not any(one.etp for one in candidates(JOB, place))
    assert not list(candidates(Job(MODELS["llama-3-8b"], 4096, 64), place, expert_mesh=True))
    found = {(one.tp, one.cp, one.pp, one.dp, one.ep, one.etp) for one in candidates(JOB, place, expert_mesh=True)}
    for tp, cp, pp, dp, ep, etp in found:
        copies, rest = divmod(tp * cp * dp, ep * etp)
        assert etp >= 1
        assert copies >= 1
        assert (rest, 16 // pp, 8 % ep) == (0, tp * cp * dp, 0)
    ours = {one[4:] for one in found if one[:4] == (4, 1, 1, 4)}
    assert ours == {(ep, etp) for ep in (1, 2, 4, 8) for etp in (1, 2, 4, 8) if ep * etp <= 16}
    kinds = {
        one.sharding for one in candidates(JOB, place, expert_mesh=True) if (one.tp, one.ep, one.etp) == (16, 8, 1)
    }
    assert kinds == {0, 1}  # two copies of each expert, though there is no data axis
