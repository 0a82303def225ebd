"""What goes wrong between the axes of a mesh: who sees which samples, who draws which numbers, what a clip is told."""

from __future__ import annotations

from dataclasses import replace

import mesh_cases
import pytest
import torch

from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer
from course_lib.parallel.data import GlobalBatches
from course_lib.parallel.mesh import DataShare, OnMesh, clip_gradients, gradient_norm, seed_for_data, seed_of

pytestmark = pytest.mark.xdist_group("mesh")

MESH = Mesh.of(pp=2, dp_replicate=2, dp_shard=2, tp=2)
DROPPING = replace(mesh_cases.CONFIG, dropout=0.3, tied=True)


# -- data -----------------------------------------------------------------------------------------------------------


def test_the_data_axes_deal_the_batch_and_the_others_see_the_same():
    x, y = torch.arange(10), torch.arange(10) * 2
    rows: dict = {}
    for rank in range(MESH.num_ranks):
        here, share = MESH.coordinates(rank), DataShare.of(MESH, rank)
        mine, targets, weight = share.deal(x, y)
        assert torch.equal(targets, mine * 2)
        assert weight == pytest.approx(len(mine) * 4 / 10)
        place = here["dp_replicate"], here["dp_shard"]
        assert rows.setdefault(place, mine.tolist()) == mine.tolist()
        sampled = GlobalBatches(10, rank=share.dp_rank, world_size=share.count, global_batch_size=10, shuffle=False)
        assert sorted(len(part) for part in sampled) == [len(mine)]
    assert [row for place in sorted(rows) for row in rows[place]] == x.tolist()  # everything, once


def test_a_mesh_without_data_axes_gives_everything_to_everybody():
    share = DataShare.of(Mesh.of(pp=2, tp=2), 3)
    mine, weight = share.deal(torch.arange(5))
    assert (mine.tolist(), weight) == ([0, 1, 2, 3, 4], 1.0)


def test_a_batch_that_cannot_be_dealt_is_told():
    share = DataShare.of(MESH, 0)
    with pytest.raises(ValueError, match="num_rows is a whole number of at least 4"):
        share.deal(torch.arange(3))
    with pytest.raises(ValueError, match=r"tensors of \[8, 7\] rows were given; those of one batch have as many"):
        share.deal(torch.arange(8), torch.arange(7))


# -- random numbers -------------------------------------------------------------------------------------------------


def test_seeds_are_equal_where_activations_are():
    seeds = {rank: seed_of(MESH, rank, 40) for rank in range(MESH.num_ranks)}
    for rank in seeds:
        for other in seeds:
            same = {a: n for a, n in MESH.coordinates(rank).items() if a != "tp"}.items()
            assert (seeds[rank] == seeds[other]) == (same <= MESH.coordinates(other).items())
    with pytest.raises(ValueError, match="seed=-1"):
        seed_of(MESH, 0, -1)


def with_dropout(me, mesh, right):
    """Losses, and what this rank holds, after steps with dropout."""
    torch.manual_seed(0)
    model = OnMesh(me, mesh, Transformer(DROPPING).double())
    if right:
        seed_for_data(mesh, me.rank, 7)
    else:
        torch.manual_seed(7 + me.rank)  # as somebody does who has learned it with data parallelism
    drawn = torch.rand(3)
    seen = mesh_cases.train(model, mesh_cases.optimizer_for(model.parameters()), 2, 8)
    model.close()
    return drawn, [(name, offsets, values) for name, offsets, values, _ in seen["held"]]


@pytest.mark.parametrize("right", [True, False])
def test_copies_stay_equal_under_dropout_where_ranks_are_seeded_by_their_place(clusters, right):
    mesh = Mesh.of(dp_replicate=2, tp=2)
    ranks = list(clusters(4).call(with_dropout, (mesh, right), show=False))
    assert torch.equal(ranks[0][0], ranks[1][0]) == right  # tp: the same activations
    assert not torch.equal(ranks[0][0], ranks[2][0])  # other samples
    boxes: dict = {}
    copies = [
        torch.equal(values, boxes.setdefault((name, offsets), values))
        for _, held in ranks
        for name, offsets, values in held
    ]
    assert all(copies) == right


# -- the norm -------------------------------------------------------------------------------------------------------


def norms(me, mesh):
    """The right norm, two that look right, and the gradients' after a clip that has nothing to do."""
    model = OnMesh(me, mesh, mesh_cases.whole("tied"))
    model.step(*model.data.deal(*mesh_cases.batches(1, 8)[0]))
    own = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None)
    added = own.clone()
    torch.distributed.all_reduce(added)
    right = gradient_norm(model)
    told = clip_gradients(model, 1e6)
    again = gradient_norm(model)
    clip_gradients(model, 0.25)
    clipped = gradient_norm(model)
    model.close()
    return [n.item() for n in (own.sqrt(), added.sqrt(), right, told, again, clipped)]


@pytest.mark.parametrize("mesh", ["dp_replicate=2 tp=2", "pp=2 dp_shard=2"])
def test_a_norm_of_ones_own_and_one_that_adds_copies_up_are_wrong(clusters, mesh):
    mesh = Mesh.parse(mesh)
    want = mesh_cases.alone("tied", 1, 8)["norms"][0]
    for own, added, right, told, again, clipped in clusters(4).call(norms, (mesh,), show=False):
        assert right == told == again == pytest.approx(want, rel=1e-10)
        assert clipped == pytest.approx(0.25, rel=1e-5)
        assert own < 0.99 * want < 1.01 * want < added


def bad_clip(me, mesh):
    model = OnMesh(me, mesh, mesh_cases.whole("plain"))
    with pytest.raises(ValueError, match=r"max_norm is 0\.0") as told:
        clip_gradients(model, 0.0)
    model.close()
    return str(told.value)


def test_a_norm_of_zero_is_refused(clusters):
    assert "max_norm is 0.0" in clusters(2).call(bad_clip, (Mesh.of(tp=2),))[0]
