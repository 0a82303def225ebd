"""The bytes of a step on a mesh by kind of link. That they are the meter's is shown in ``tests/parallel/mesh``."""

from __future__ import annotations

import pytest

from course_lib.cost import MeshStep, bytes_by_link, sharded_sent_bytes, transformer_parameters
from course_lib.layouts.mesh import Mesh
from course_lib.models import TransformerConfig
from course_lib.schedules import one_f_one_b

CONFIG = TransformerConfig(vocab_size=64, context_length=16, num_layers=4, width=32, num_heads=4)
MESH = Mesh.of(pp=2, dp_shard=2, tp=2, ranks_per_node=4)


def step(mesh=MESH, **others):
    return MeshStep(**{"config": CONFIG, "mesh": mesh, "batch_size": 16} | others)


def test_the_order_of_the_axes_moves_bytes_between_nodes_and_changes_none():
    by_order = {str(mesh): step(mesh) for mesh in MESH.orders()}
    assert len(by_order) == 6
    assert len({sum(one.by_link()) for one in by_order.values()}) == 1
    for one in by_order.values():
        assert one.sent_bytes(0) == step().sent_bytes(0)
        for axis in MESH.axes:
            within, between = one.by_link(axis)
            assert (between == 0) == one.mesh.stays_within_a_node(axis)
            assert (within == 0) == (not one.mesh.stays_within_a_node(axis))


def test_links_add_up_to_axes_and_axes_to_all():
    one = step()
    every = [sum(row) for row in one.matrix()]
    assert every == [sum(one.sent_bytes(rank).values()) for rank in range(8)]
    by_axis = [one.by_link(axis) for axis in (*MESH.axes, "loss")]
    assert tuple(map(sum, zip(*by_axis, strict=True))) == one.by_link()


def test_one_node_has_no_links_to_others():
    assert step(Mesh.of(dp_shard=2, tp=2)).by_link().between_bytes == 0


def test_one_rank_sends_nothing():
    assert step(Mesh.of(pp=1, tp=1)).sent_bytes() == {"pp": 0, "tp": 0, "loss": 0}
    assert step(Mesh.of(pp=1, tp=1)).calls(0) == []


def test_one_axis_alone_is_the_formula_of_its_lesson():
    bytes_of_weights = 4 * sum(transformer_parameters(CONFIG))
    assert step(Mesh.of(dp_replicate=4)).sent_bytes()["dp_replicate"] == bytes_of_weights * 2 * 3 // 4
    sharded = sharded_sent_bytes([(size,) for size in transformer_parameters(CONFIG)], stage=3, num_ranks=4)
    assert step(Mesh.of(dp_shard=4)).sent_bytes()["dp_shard"] == sharded
    one_way = 16 // 2 * CONFIG.context_length * CONFIG.width * 4
    assert step(Mesh.of(pp=2, dp_shard=2)).sent_bytes(0)["pp"] == one_way


def test_sequence_parallelism_halves_what_goes_from_stage_to_stage():
    mesh = Mesh.of(pp=2, tp=2)
    assert 2 * step(mesh, sequence_parallel=True).sent_bytes(0)["pp"] == step(mesh).sent_bytes(0)["pp"]


def test_a_batch_is_dealt_out_over_replicas_first():
    uneven = step(Mesh.of(dp_shard=2, dp_replicate=2, tp=2), batch_size=6)  # parts of 2, 2, 1 and 1
    per_row = step(Mesh.of(tp=2), batch_size=1).sent_bytes(0)["tp"]
    rows = [uneven.sent_bytes(rank)["tp"] / per_row for rank in range(0, 8, 2)]
    assert rows == [2, 1, 2, 1], "the first replica has the larger parts, wherever its ranks are"


def test_nccl_scatters_with_as_many_bytes_and_a_ring():
    mesh = Mesh.of(dp_shard=4)
    assert step(mesh, backend="nccl").sent_bytes(0) == step(mesh).sent_bytes(0)
    assert {call.operation for call in step(mesh, backend="nccl").calls(0)} >= {
        "all_gather",
        "reduce_scatter",
    }
    # Where gloo's own reduce-scatter sends twice.
    parallel = {"mesh": Mesh.of(tp=2), "sequence_parallel": True}
    assert step(**parallel, backend="nccl").sent_bytes(0)["tp"] < step(**parallel).sent_bytes(0)["tp"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"mesh": Mesh.of(cp=2, tp=2)}, "cp=2 is not counted here, only pp, dp_replicate, dp_shard, tp"),
        ({"mesh": Mesh.of(tp=3)}, "tp=3 does not work: tp divides the number of heads, which is 4"),
        ({"batch_size": 7}, "batch_size=7 does not work.*at least 8. The nearest that works is 8"),
        ({"schedule": one_f_one_b(4, 4)}, "has 4 ranks, and this mesh pp=2"),
        ({"length": 0}, "length=0 does not work"),
        ({"backend": "mpi"}, "backend is 'mpi'; it is one of gloo, nccl"),
        ({"length": 15, "sequence_parallel": True}, "tp=2 does not work: tp divides the number of tokens"),
    ],
)
def test_a_step_that_cannot_be_is_refused_with_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        step(**wrong)


def test_a_matrix_of_other_ranks_is_refused():
    with pytest.raises(ValueError, match=r"the matrix has 2 rows, and .* has 8 ranks: .* 8 x 8"):
        bytes_by_link(MESH, [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="axis is 'ep'"):
        step().matrix("ep")
