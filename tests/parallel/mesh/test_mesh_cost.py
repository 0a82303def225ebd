"""What a step on a mesh sends along each axis, by the formulas of ``cost.mesh.link_bytes`` and by the meter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import mesh_cases
import pytest
import torch.distributed as dist

from course_lib.cost import MeshStep, bytes_by_link
from course_lib.layouts.mesh import Mesh
from course_lib.meter import metered
from course_lib.models import Transformer
from course_lib.parallel.mesh import OnMesh
from course_lib.schedules import get_schedule, gpipe

pytestmark = pytest.mark.xdist_group("mesh")

NUM_ROWS, LENGTH, ITEM_BYTES = 8, 6, 8
GROUPED_QUERIES = replace(mesh_cases.CONFIG, num_kv_heads=2, bias=False)
EVEN = replace(mesh_cases.CONFIG, vocab_size=12, hidden=12)


def second_step(me, mesh, config, num_rows, options):
    """A step, and after a barrier the one that is looked at."""
    model = OnMesh(me, mesh, Transformer(config).double(), **options)
    x, y = (tokens % config.vocab_size for tokens in mesh_cases.batches(1, num_rows)[0])
    for _ in range(2):
        dist.barrier()
        model.zero_grad()
        model.step(*model.data.deal(x, y))
    model.close()


def calls_of_the_step(run, rank):
    """What a rank has called since the barrier before the step; the groups of a mesh end with another one."""
    calls = list(run.communication.of(rank).calls)
    while calls[-1].operation == "barrier":
        calls.pop()
    begin = max(i for i, call in enumerate(calls) if call.operation == "barrier")
    return calls[begin + 1 :]


def axis_of(call, mesh):
    """Of a metered call: the axis along which its ranks differ."""
    if call.operation in ("send", "recv"):
        return "pp"
    return next(axis for axis in mesh.axes if call.group == mesh.group(call.rank, axis))


def compare(clusters, mesh, config, num_rows=NUM_ROWS, **options):
    run = metered(clusters(mesh.num_ranks), second_step, mesh, config, num_rows, options)
    step = MeshStep(config=config, mesh=mesh, batch_size=num_rows, length=LENGTH, itemsize=ITEM_BYTES, **options)
    matrix = [[0] * mesh.num_ranks for _ in range(mesh.num_ranks)]
    for rank in range(mesh.num_ranks):
        seen = Counter(dict.fromkeys([*mesh.axes, "loss"], 0))
        calls = calls_of_the_step(run, rank)
        for call in calls:
            axis = "loss" if call is calls[-1] else axis_of(call, mesh)  # it may be an axis of all ranks, too
            seen[axis] += sum(call.sent_bytes.values())
            for receiver, size_bytes in call.sent_bytes.items():
                matrix[rank][receiver] += size_bytes
        assert step.sent_bytes(rank) == dict(seen), f"rank {rank}"
    assert step.matrix() == matrix
    assert step.by_link() == bytes_by_link(mesh, matrix)


FOUR = [
    (Mesh.of(dp_replicate=2, tp=2), mesh_cases.CONFIG, {}),
    (Mesh.of(tp=2, dp_shard=2, ranks_per_node=2), mesh_cases.CONFIG, {}),
    (Mesh.of(pp=2, dp_shard=2, ranks_per_node=2), mesh_cases.CONFIG, {}),
    (Mesh.of(pp=2, dp_replicate=2), mesh_cases.CONFIGS["tied"], {}),
    (Mesh.of(pp=2, tp=2), EVEN, {"sequence_parallel": True, "schedule": gpipe(2, 3)}),
]
OTHERS = [
    (Mesh.of(pp=2, dp_shard=2, tp=2, ranks_per_node=4), mesh_cases.CONFIG, {}),
    (Mesh.of(dp_replicate=2, dp_shard=2, ranks_per_node=2), mesh_cases.CONFIGS["tied"], {}),
    (Mesh.of(dp_replicate=2), EVEN, {"schedule": gpipe(1, 2)}),
    (Mesh.of(dp_shard=4), GROUPED_QUERIES, {}),
    (Mesh.of(tp=4), mesh_cases.CONFIGS["uneven"], {}),
    (Mesh.of(dp_replicate=4), mesh_cases.CONFIGS["tied"], {}),
    (Mesh.of(pp=2, dp_shard=2), mesh_cases.CONFIGS["tied"], {}),
    (Mesh.of(pp=2, tp=2), mesh_cases.CONFIGS["tied"], {"schedule": get_schedule("interleaved", 2, 4)}),
    (Mesh.of(tp=2, dp_shard=2), EVEN, {"sequence_parallel": True}),
    (Mesh.of(pp=2, tp=2), mesh_cases.CONFIGS["uneven"], {"schedule": get_schedule("zb_h1", 2, 4)}),
    (Mesh.of(pp=2, tp=2), EVEN, {"sequence_parallel": True, "schedule": get_schedule("zb_h1", 2, 4)}),
]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("mesh", "config", "options"), FOUR, ids=lambda x: str(x) if isinstance(x, Mesh) else "")
def test_every_byte_along_every_axis_is_the_formulas(clusters, mesh, config, options):
    compare(clusters, mesh, config, **options)


@pytest.mark.long
@pytest.mark.parametrize(("mesh", "config", "options"), OTHERS, ids=lambda x: str(x) if isinstance(x, Mesh) else "")
def test_and_on_other_meshes(clusters, mesh, config, options):
    compare(clusters, mesh, config, **options)


def test_a_batch_that_does_not_divide(clusters):
    compare(clusters, Mesh.of(dp_shard=2, tp=2), mesh_cases.CONFIG, num_rows=5)
