"""The groups of a mesh on real ranks: those of ``init_device_mesh``, and of use to a collective."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import MeshGroups

MESHES = [
    Mesh.of(pp=2, tp=2),
    Mesh.of(tp=2, dp_replicate=2),
    Mesh.of(dp_shard=4),
    Mesh.of(pp=1, dp_shard=2, tp=2),
]


def ranks_by_both(me, mesh):
    groups = MeshGroups(me, mesh)
    theirs = init_device_mesh("cpu", mesh.shape, mesh_dim_names=mesh.axes)
    found = {}
    for axis in mesh.axes:
        ours, its = groups.group(axis), theirs.get_group(axis)
        found[axis] = dist.get_process_group_ranks(ours), dist.get_process_group_ranks(its)
    places = groups.coordinates, dict(zip(mesh.axes, theirs.get_coordinate(), strict=True))
    groups.close()
    for axis in mesh.axes:
        if theirs.get_group(axis) != dist.group.WORLD:
            dist.destroy_process_group(theirs.get_group(axis))
    return found, places


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_groups_and_places_are_those_of_init_device_mesh(mesh, cluster4):
    for found, (mine, its) in cluster4.run(ranks_by_both, mesh):
        assert mine == its
        for ours, theirs in found.values():
            assert ours == theirs


def sums(me, mesh):
    groups = MeshGroups(me, mesh, together=[("dp_shard", "tp")])
    found = {}
    for axes in (("tp",), ("dp_shard",), ("tp", "dp_shard")):
        number = torch.tensor([10.0**me.rank])
        dist.all_reduce(number, group=groups.group(*axes))
        found[axes] = number.item(), groups.members(*axes).group_rank
    groups.close()
    return found


def test_a_sum_along_axes_adds_what_the_group_has(cluster4):
    mesh = Mesh.of(dp_shard=2, tp=2)
    for rank, found in enumerate(cluster4.run(sums, mesh)):
        for axes, (total, place) in found.items():
            assert total == sum(10.0**other for other in mesh.group(rank, *axes))
            assert mesh.group(rank, *axes)[place] == rank


def ask_for(me, mesh, axes):
    groups = MeshGroups(me, mesh)
    try:
        groups.group(*axes)
    except ValueError as error:
        return str(error)
    finally:
        groups.close()


def test_a_group_that_nobody_made_is_told(cluster4):
    said = cluster4.run(ask_for, Mesh.of(dp_shard=2, tp=2), ("dp_shard", "tp"))[0]
    assert said.startswith("there is no group along dp_shard and tp; there are those along dp_shard, tp.")


def test_a_mesh_of_another_number_of_ranks_is_told(cluster4):
    with pytest.raises(Exception, match="the mesh tp=2 has 2 ranks, and this job has 4"):
        cluster4.run(MeshGroups, Mesh.of(tp=2))
