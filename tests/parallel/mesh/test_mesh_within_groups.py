"""The wrappers of the rooms before, within the groups of a mesh: nothing of theirs leaves the group."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.data import DistributedDataParallel, broadcast_parameters
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.sharded import FullySharded
from course_lib.schedules import get_schedule

pytestmark = pytest.mark.xdist_group("mesh")

MESH = Mesh.of(dp_replicate=2, tp=2)  # groups of dp_replicate: ranks 0 and 2, ranks 1 and 3
GRID = Mesh.of(dp_replicate=2, dp_shard=2)


class Layer(nn.Module):
    """As wide as it is told, with a buffer and a weight that only some ranks use."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.used, self.extra = nn.Linear(3, width).double(), nn.Linear(3, width).double()
        self.idle = nn.Parameter(torch.ones(2).double())
        self.register_buffer("shift", torch.full((width,), float(seed)).double())

    def forward(self, x, with_extra):
        return self.used(x) + self.shift + (self.extra(x) if with_extra else 0)


def averaged(me):
    """What DDP makes of ranks with other widths in each group: weights, and gradients of inputs of ones times rank."""
    groups = MeshGroups(me, MESH)
    wrapped = DistributedDataParallel(
        me,
        Layer(2 + me.rank % 2, seed=me.rank),
        group=groups.group("dp_replicate"),
        find_unused_parameters=True,
    )
    twin = copy.deepcopy(wrapped)  # which averages within the same group
    found = []
    for model in (wrapped, twin):
        x = torch.full((1, 3), float(me.rank), dtype=torch.float64)
        loss = model(x, me.rank == 0).sum()
        loss.backward()
        found.append((loss.item(), model.state_dict(), {n: p.grad for n, p in model.module.named_parameters()}))
    groups.close()
    return found


def test_ddp_averages_within_its_group(clusters):
    for rank, both in enumerate(clusters(4).call(averaged)):
        first = rank % 2
        for loss, state, gradients in both:
            want = Layer(2 + first, seed=first)
            x = torch.full((1, 3), float(rank), dtype=torch.float64)
            assert loss == pytest.approx(want(x, rank == 0).sum().item())  # buffers, too, are the group's first's
            for name, value in want.state_dict().items():
                assert torch.equal(state[name], value)
            assert torch.equal(gradients["used.weight"], torch.full((2 + first, 3), first + 1.0).double())  # mean
            if first == 0:  # one of the two has used it, with zeros
                assert torch.equal(gradients["extra.weight"], torch.zeros(2, 3).double())
            else:  # nobody in this group, whatever others did
                assert gradients["extra.weight"] is None
            assert gradients["idle"] is None


def sharded(me, in_grid):
    groups = MeshGroups(me, GRID)
    replicas = groups.group("dp_replicate") if in_grid else None
    torch.manual_seed(me.rank)
    model = nn.Sequential(
        nn.Linear(3, 2 if in_grid else 2 + me.rank // 2), nn.Linear(2 if in_grid else 2 + me.rank // 2, 1)
    ).double()
    wrapped = FullySharded(me, model, group=groups.group("dp_shard"), replicas=replicas)
    with wrapped.no_sync():
        for _ in range(2):
            wrapped(torch.full((1, 3), me.rank + 1.0, dtype=torch.float64)).sum().backward()
    kept = [p.grad is None for p in wrapped.parameters()]
    wrapped.reduce_deferred()
    state = wrapped.full_state_dict()
    with torch.no_grad():
        for p in wrapped.parameters():
            p.copy_(p.grad)
    gradients = wrapped.full_state_dict()
    groups.close()
    return kept, state, gradients


@pytest.mark.parametrize("in_grid", [True, False])
def test_sharding_starts_from_its_groups_first_and_reduces_in_the_end(clusters, in_grid):
    for rank, (kept, state, gradients) in enumerate(clusters(4).call(sharded, (in_grid,))):
        first = 0 if in_grid else rank // 2 * 2
        others = range(4) if in_grid else (first, first + 1)
        torch.manual_seed(first)
        width = 2 if in_grid else 2 + rank // 2
        model = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 1)).double()
        for name, value in model.state_dict().items():
            assert torch.equal(state[name], value)
        for other in others:
            (2 * model(torch.full((1, 3), other + 1.0, dtype=torch.float64)).sum() / len(others)).backward()
        assert all(kept)
        for name, p in model.named_parameters():
            torch.testing.assert_close(gradients[name], p.grad, rtol=0, atol=1e-12)


# -- bad input --------------------------------------------------------------------------------------------------------


def wrong_on_the_last(me, axes):
    """Rank 3 has another model; who hears of it?"""
    groups = MeshGroups(me, GRID)
    model = nn.Linear(3, 2 + (me.rank == 3))
    try:
        if len(axes) == 2:
            FullySharded(me, model, group=groups.group(axes[0]), replicas=groups.group(axes[1]))
        else:
            DistributedDataParallel(me, model, group=groups.group(axes[0]))
    except ValueError as error:
        return str(error)
    finally:
        groups.close()
    return None


def test_another_model_is_told_to_all_who_share_it(clusters):
    words = "has bias (2,) torch.float32, trained where rank 3 has bias (3,) torch.float32, trained"
    grid = [str(said) for said in clusters(4).call(wrong_on_the_last, (("dp_shard", "dp_replicate"),))]
    assert all(said.startswith("rank 0 has weight (2, 3)") and "where rank 3" in said for said in grid)
    alone = clusters(4).call(wrong_on_the_last, (("dp_replicate",),))
    assert [said is None for said in alone] == [True, False, True, False]
    assert alone[1].startswith("rank 1 has weight")
    assert words.split(" where ")[1].split(" has")[0] in alone[1]


def broadcast_from(me, src):
    groups = MeshGroups(me, MESH)
    try:
        broadcast_parameters(me, nn.Linear(2, 2), src, group=groups.group("dp_replicate"))
    except ValueError as error:
        return str(error)
    finally:
        groups.close()
    return None


def test_a_source_outside_of_the_group_is_told(clusters):
    said = clusters(4).call(broadcast_from, (3,))
    assert said[0] == "src=3 is none of the ranks 0, 2; the nearest is 2"
    assert said[1] is None


def wrapped_pipeline(me, kind, overlap):
    schedule = get_schedule(kind, 2, 4)
    tied = nn.Linear(3, 3)
    stages = [
        nn.Sequential(tied),
        *(nn.Linear(3, 3) for _ in range(schedule.num_stages - 2)),
        nn.Sequential(tied),
    ]
    try:
        Pipeline(me, stages, schedule, nn.functional.mse_loss, overlap=overlap, wrap=lambda stage: stage)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("kind", "overlap", "words"),
    [
        ("zb_h1", False, "wrap= needs whole backwards, one at a time, and 'ZB-H1' cuts them in two"),
        ("1f1b", True, "wrap= needs whole backwards, one at a time, and overlap=True runs two at once"),
    ],
)
def test_a_wrapped_stage_needs_whole_backwards(clusters, kind, overlap, words):
    assert all(said.startswith(words) for said in clusters(2).call(wrapped_pipeline, (kind, overlap)))


def tied_at_home(me):
    """Stages 0 and 2 are one rank's, and share a matrix."""
    schedule = get_schedule("interleaved", 2, 4)
    shared = nn.Linear(3, 3)
    stages = [nn.Sequential(shared), nn.Linear(3, 3), nn.Sequential(shared), nn.Linear(3, 3)]
    try:
        Pipeline(me, stages, schedule, nn.functional.mse_loss, wrap=lambda stage: stage)
    except ValueError as error:
        return str(error)
    return None


def test_a_wrapper_may_not_part_what_is_tied(clusters):
    said = clusters(2).call(tied_at_home)
    assert said[0].startswith("two stages of this rank share a parameter, and wrap= would make two copies")
    assert said[1] is None
