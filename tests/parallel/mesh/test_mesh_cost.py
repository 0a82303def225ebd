"""What a step on a mesh sends along each axis: the formulas of the rooms before, with the sizes that are left."""

from __future__ import annotations

from dataclasses import replace

import mesh_cases
import pytest
import torch
import torch.distributed as dist

from course_lib.cost import collectives_sent_bytes, sharded_sent_bytes, split_transformer_collectives
from course_lib.mesh import Mesh
from course_lib.meter import metered
from course_lib.models import Transformer
from course_lib.parallel.mesh import OnMesh, boxes_of
from course_lib.schedules import one_f_one_b

pytestmark = pytest.mark.xdist_group("mesh")

CONFIG = replace(mesh_cases.CONFIG, vocab_size=12)
NUM_ROWS, LENGTH, ITEM_BYTES, MICRO_BATCHES = 8, 6, 8, 4


def second_step(me, mesh, config):
    """A step, and after a barrier the one that is looked at; returns shapes before sharding, and the clip's too."""
    options = {"schedule": one_f_one_b(2, MICRO_BATCHES)} if mesh.size("pp") > 1 else {}
    model = OnMesh(me, mesh, Transformer(config).double(), **options)
    x, y = (tokens % config.vocab_size for tokens in mesh_cases.batches(1, NUM_ROWS)[0])
    for _ in range(2):
        dist.barrier()
        model.zero_grad()
        model.step(*model.data.deal(x, y))
    held = {box.first_name: tuple(box.parameter.shape) for box in boxes_of(model)}
    model.close()
    return held


def calls_of_the_step(run, rank):
    """What a rank has called since the barrier before the step; the groups of a mesh end with another one."""
    calls = list(run.communication.of(rank).calls)
    while calls[-1].operation == "barrier":
        calls.pop()
    begin = max(i for i, call in enumerate(calls) if call.operation == "barrier")
    return calls[begin + 1 :]


def sent_bytes(run, mesh, rank, *axes):
    """What a rank has sent since the last barrier, to the ranks along these axes."""
    calls = calls_of_the_step(run, rank)
    return sum(
        sum(call.sent_bytes.values())
        for call in calls
        if call.operation != "send" and call.group == mesh.group(rank, *axes)
    )


def messages_bytes(run, rank):
    calls = calls_of_the_step(run, rank)
    return sum(sum(call.sent_bytes.values()) for call in calls if call.operation == "send")


def numel(shapes):
    return sum(torch.Size(shape).numel() for shape in shapes)


def of_the_tensor_axis(num_rows):
    wanted = split_transformer_collectives(CONFIG, batch_size=num_rows, length=LENGTH, itemsize=ITEM_BYTES)
    return collectives_sent_bytes(wanted, 2)


def test_replicas_average_slices_and_the_tensor_axis_sees_half_of_the_batch(clusters):
    mesh = Mesh.of(dp_replicate=2, tp=2)
    run = metered(clusters(4), second_step, mesh, CONFIG)
    for rank in range(4):
        assert (
            sent_bytes(run, mesh, rank, "dp_replicate") == numel(run[rank].values()) * ITEM_BYTES
        )  # 2 (n-1)/n
        assert sent_bytes(run, mesh, rank, "tp") == of_the_tensor_axis(NUM_ROWS // 2)


def test_shards_are_those_of_slices(clusters):
    """Sizes are even here, so a slice is twice the shard that is left of it."""
    mesh, config = Mesh.of(dp_shard=2, tp=2), replace(CONFIG, hidden=12)
    run = metered(clusters(4), second_step, mesh, config)
    wanted = split_transformer_collectives(config, batch_size=4, length=LENGTH, itemsize=ITEM_BYTES)
    for rank in range(4):
        slices = [(2 * rows, *rest) for rows, *rest in run[rank].values()]
        assert sent_bytes(run, mesh, rank, "dp_shard") == sharded_sent_bytes(
            slices, stage=3, num_ranks=2, dtype="float64"
        )
        assert sent_bytes(run, mesh, rank, "tp") == collectives_sent_bytes(wanted, 2)


def test_a_sharded_stage_is_gathered_for_each_micro_batch_and_reduced_once(clusters):
    mesh, config = Mesh.of(pp=2, dp_shard=2), replace(CONFIG, hidden=12)
    run = metered(clusters(4), second_step, mesh, config)
    stream_bytes = NUM_ROWS // 2 * LENGTH * config.width * ITEM_BYTES
    for rank in range(4):
        shard = numel(run[rank].values())  # n = 2: what a rank keeps, and sends in each gather
        assert sent_bytes(run, mesh, rank, "dp_shard") == (2 * MICRO_BATCHES + 1) * shard * ITEM_BYTES
        assert messages_bytes(run, rank) == stream_bytes  # activations one way, gradients the other


def test_a_pipeline_of_replicas_averages_once_a_batch(clusters):
    mesh = Mesh.of(pp=2, dp_replicate=2)
    run = metered(clusters(4), second_step, mesh, CONFIG)
    for rank in range(4):
        assert sent_bytes(run, mesh, rank, "dp_replicate") == numel(run[rank].values()) * ITEM_BYTES
