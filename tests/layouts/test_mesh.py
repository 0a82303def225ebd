"""A mesh as data: places, groups and nodes are those of PyTorch's device mesh, for every size."""

from __future__ import annotations

import itertools

import pytest
import torch

from course_lib.layouts.mesh import AXES, Mesh

SHAPES = [shape for shape in itertools.product((1, 2, 3, 4, 8), repeat=3) if torch.Size(shape).numel() <= 24]


def meshes(axes=("pp", "dp_shard", "tp")):
    return [Mesh(axes, shape) for shape in SHAPES]


def test_ranks_are_numbered_as_by_pytorch():
    for mesh in meshes():
        numbers = torch.arange(mesh.num_ranks).view(mesh.shape)  # what init_device_mesh begins with
        for place in itertools.product(*map(range, mesh.shape)):
            rank = mesh.rank_at(**dict(zip(mesh.axes, place, strict=True)))
            assert rank == int(numbers[place])
            assert tuple(mesh.coordinates(rank).values()) == place


@pytest.mark.parametrize("axes", [("pp",), ("tp",), ("pp", "tp"), ("tp", "dp_shard"), ("pp", "dp_shard", "tp"), ()])
def test_groups_are_the_lines_and_planes_of_the_numbering(axes):
    for mesh in meshes():
        numbers = torch.arange(mesh.num_ranks).view(mesh.shape)
        dims = [mesh.axes.index(axis) for axis in mesh.axes if axis in axes]
        others = [dim for dim in range(3) if dim not in dims]
        lines = numbers.permute(*others, *dims).reshape(-1, mesh.size(*axes))
        assert mesh.groups(*axes) == sorted(tuple(line) for line in lines.tolist())
        for rank in range(mesh.num_ranks):
            assert rank in mesh.group(rank, *axes)


def test_an_axis_that_is_not_there_has_one_place():
    mesh = Mesh.of(tp=2)
    assert mesh.size("pp") == 1
    assert mesh.size("pp", "tp") == 2
    assert mesh.group(1, "pp") == (1,)
    assert mesh.rank_at(pp=0, tp=1) == 1


def test_nodes_and_what_stays_within_one():
    mesh = Mesh.of(pp=2, dp_shard=2, tp=2, ranks_per_node=4)
    assert [mesh.node_of(rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert mesh.stays_within_a_node("tp")
    assert mesh.stays_within_a_node("tp", "dp_shard")
    assert not mesh.stays_within_a_node("pp")
    turned = next(one for one in mesh.orders() if one.axes == ("tp", "dp_shard", "pp"))
    assert not turned.stays_within_a_node("tp")
    assert turned.stays_within_a_node("pp")
    assert len(list(mesh.orders())) == 6
    assert Mesh.of(pp=2, tp=2).stays_within_a_node("pp")


def test_its_text_reads_back():
    for mesh in [*meshes(AXES[:3]), Mesh.of(), Mesh.of(ranks_per_node=4, tp=8), Mesh.of(ep=2, cp=3)]:
        assert Mesh.parse(str(mesh)) == mesh
    assert str(Mesh.of(pp=2, tp=4, ranks_per_node=4)) == "pp=2 tp=4, 4 ranks a node"
    assert Mesh.parse("  tp=2   pp=3 ,4 ranks a node".replace("4", "3")).axes == ("tp", "pp")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: Mesh.of(dp=2, tp=2),
            "axis is 'dp'; it is one of pp, dp_replicate, dp_shard, cp, tp, ep. What you mean is dp_replicate .* or "
            "dp_shard",
        ),
        (lambda: Mesh.parse("fsdp=2 tp=2"), "axis is 'fsdp'; .* What you mean is dp_shard"),
        (lambda: Mesh.of(tpp=2), "axis is 'tpp'; .* Did you mean 'tp'"),
        (lambda: Mesh(("tp", "tp"), (2, 2)), "axis 'tp' comes twice; give it once"),
        (lambda: Mesh(("tp",), (2, 2)), "a mesh of 1 axes has as many sizes; 2 were given"),
        (lambda: Mesh.of(tp=0), "tp=0 does not work.*nearest that works is 1"),
        (lambda: Mesh.of(tp=6, ranks_per_node=4), "6 ranks do not fill nodes of 4.*nearest that works is 3"),
        (lambda: Mesh.of(tp=1 << 21), "num_ranks=2097152 does not work"),
        (lambda: Mesh.parse("tp=two"), "'tp=two' is no axis with its size; write it as 'tp=2'"),
        (lambda: Mesh.parse("tp=2 tp=2"), "axis 'tp' comes twice"),
        (
            lambda: Mesh.parse("tp=2, many"),
            "'many' is not understood; after the comma stands '4 ranks a node'",
        ),
        (lambda: Mesh.of(tp=2).rank_at(tp=2), "tp=2: places along tp are 0 to 1"),
        (lambda: Mesh.of(tp=2).rank_at(pp=1), "pp=1: places along pp are 0 to 0"),
        (lambda: Mesh.of(tp=2).coordinates(2), "rank=2 is not in a mesh of 2 ranks: they are 0 to 1"),
        (lambda: Mesh.of(tp=2).node_of(-1), "rank=-1 is not in a mesh of 2 ranks"),
        (lambda: Mesh.of(tp=2).group(0, "dp"), "axis is 'dp'"),
    ],
)
def test_bad_input_is_told_with_the_rule(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_place_along_several_axes_counts_the_last_of_them_fastest():
    cube = Mesh.of(pp=2, dp_replicate=2, dp_shard=3)
    assert [cube.group_rank(rank, "dp_replicate", "dp_shard") for rank in range(12)] == 2 * list(range(6))
    assert [cube.group_rank(rank, "dp_shard", "dp_replicate") for rank in range(6)] == [0, 2, 4, 1, 3, 5]
    assert cube.group_rank(11, "tp") == 0  # an axis that it does not have has one place
    with pytest.raises(ValueError, match="rank=12 is not in a mesh of 12 ranks"):
        cube.group_rank(12, "pp")
