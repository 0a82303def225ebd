"""Modules whose parameters are no copies: whatever takes them for copies refuses, and nothing is overwritten."""

from __future__ import annotations

import copy
import io
import pickle
import weakref

import pytest
import torch
import torch.distributed as dist
from ddp_cases import message_of
from torch import nn

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import part_of, stage_is_part
from course_lib.parallel.data import DistributedDataParallel, all_reduce_gradients, broadcast_parameters
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.model import ModelParallel
from course_lib.parallel.pipeline import Pipeline, average_gradients
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer
from course_lib.parallel.tensor import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding
from course_lib.schedules import one_f_one_b

pytestmark = pytest.mark.xdist_group("parallel_ddp")


def models(me, group=None) -> dict[str, nn.Module]:
    """One of each kind, whose parameters this rank shares with the ranks of ``group``."""
    torch.manual_seed(0)
    made = {
        "experts": nn.Sequential(
            nn.Linear(4, 4),
            ExpertParallel(me, MixtureOfExperts(4, hidden=3, num_experts=2, top_k=1), group=group),
        ),
        "columns": ColumnParallelLinear(me, nn.Linear(4, 4), group=group),
        "rows": nn.Sequential(RowParallelLinear(me, nn.Linear(4, 4), group=group)),
        "vocabulary": VocabParallelEmbedding(me, nn.Embedding(4, 3), group=group),
        "sharded": FullySharded(me, nn.Linear(4, 4), group=group),
    }
    if group is None:
        made["stages"] = ModelParallel(me, [nn.Linear(4, 4) for _ in range(me.world_size)])
        made["pipeline"] = Pipeline(
            me, [nn.Linear(4, 4) for _ in range(me.world_size)], one_f_one_b(me.world_size, 2), mean_square
        ).stages[str(me.rank)]
    return made


def mean_square(output, target):
    return (output - target).square().mean()


def optimizer(me, model, stage):
    """It is given parameters, and sees no module."""
    ShardedOptimizer(me, model.parameters(), torch.optim.SGD, stage=stage, lr=0.1)


WAYS = {
    "DDP": DistributedDataParallel,
    "FullySharded": FullySharded,
    "broadcast_parameters": broadcast_parameters,
    "all_reduce_gradients": all_reduce_gradients,
    "ShardedOptimizer, stage 1": lambda me, model: optimizer(me, model, 1),
    "ShardedOptimizer, stage 2": lambda me, model: optimizer(me, model, 2),
}


def taken_for_copies(me) -> dict[tuple[str, str], tuple[str, bool]]:
    """What is said, and whether the parameters are untouched."""
    found = {}
    for kind, model in models(me).items():
        before = [p.detach().clone() for p in model.parameters()]
        for way, take in WAYS.items():
            said = message_of(lambda take=take, model=model: take(me, model))
            same = all(map(torch.equal, before, model.parameters()))
            found[kind, way] = said, same and all(p.grad is None for p in model.parameters())
    return found


def test_parts_are_not_taken_for_copies(two):
    for found in two.call(taken_for_copies):
        for (kind, way), (said, untouched) in found.items():
            assert untouched, (kind, way)
            if (kind, way) == ("sharded", "FullySharded"):
                assert "is a FullySharded already" in said
                continue
            assert "ranks 0, 1 hold different parts of it" in said, (kind, way)
        said, _ = found["experts", "DDP"]
        assert said.startswith("rank 0: '1.experts' of this model is a OwnExperts")
        assert "Use average_gradients(model, MeshGroups(me, mesh," in said
        assert "a group of ranks that hold the same part" in found["rows", "DDP"][0]
        assert "replicas=" in found["sharded", "DDP"][0]


def copies(me) -> dict[str, str]:
    """What the optimizer says, which sees parameters alone, of copies of each kind."""
    made = models(me)
    stages = [nn.Linear(4, 4) for _ in range(me.world_size)]
    made["pipeline"] = Pipeline(me, stages, one_f_one_b(me.world_size, 2), mean_square).stages
    ways = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}
    return {
        f"{kind}, {way}": message_of(lambda model=model, make=make: optimizer(me, make(model), 1))
        for kind, model in made.items()
        for way, make in ways.items()
    }


def test_copies_of_parts_are_parts(two):
    for found in two.call(copies):
        for kind, said in found.items():
            expected = "cannot be copied or pickled" if "sharded" in kind else "hold different parts of it"
            assert expected in said, (kind, said)


def stages_alone(me) -> dict[str, tuple[str, bool, int]]:
    """Copies of a stage, and of a module in one: what the optimizer says, whether ties stay, how many are marked."""
    inner = [nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())) for _ in range(me.world_size)]
    for stage in inner:
        stage[1][0].weight = stage[0].weight
    pipeline = Pipeline(me, inner, one_f_one_b(me.world_size, 2), mean_square)
    in_turn = ModelParallel(me, [nn.Linear(4, 4) for _ in range(me.world_size)])
    stage = pipeline.stages[str(me.rank)]
    made = {"stage": stage, "within": stage[1], "part": in_turn.part}
    ways = {
        "deepcopy": copy.deepcopy,
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "copy of a copy": lambda model: copy.deepcopy(pickle.loads(pickle.dumps(model))),
        "torch.save": saved_and_loaded,
    }
    found = {}
    for kind, module in made.items():
        for way, make in ways.items():
            copied = make(module)
            assert copied(torch.ones(2, 4)).equal(module(torch.ones(2, 4)))
            assert not {*copied.parameters()} & {*module.parameters()}
            tied = kind != "stage" or copied[0].weight is copied[1][0].weight
            marked = sum(part_of(p) is not None for p in copied.parameters())
            found[f"{kind}, {way}"] = message_of(lambda copied=copied: optimizer(me, copied, 1)), tied, marked
    return found


def saved_and_loaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_a_stage_that_is_copied_alone_stays_a_part(two):
    for found in two.call(stages_alone):
        for kind, (said, tied, marked) in found.items():
            assert "hold different parts of it" in said, (kind, said)
            assert tied, kind
            assert marked == (3 if kind.startswith("stage") else 2), kind


def test_a_mark_keeps_no_weight_alive_and_changes_no_state():
    stage = nn.Sequential(nn.Linear(3, 2))
    before = list(stage.state_dict())
    stage_is_part(stage, "Pipeline", Members(0, (0, 1), None))
    assert list(stage.state_dict()) == before
    gone = weakref.ref(stage[0].weight)
    stage[0].weight = nn.Parameter(torch.zeros(2, 3))
    assert gone() is None
    copied = copy.deepcopy(stage)
    assert [part_of(p) is not None for p in copied.parameters()] == [False, True]


def on_a_mesh(me) -> dict[str, list[str]]:
    """Parts among the ranks of an axis, and averages over the other: allowed where the mean is the right average."""
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, tp=2))
    said = {
        kind: [
            message_of(lambda model=model, axis=axis: DistributedDataParallel(me, model, group=groups.group(axis)))
            for axis in ("dp_replicate", "tp")
        ]
        for kind, model in models(me, groups.group("tp")).items()
    }
    groups.close()
    return said


def test_parts_are_averaged_with_ranks_that_hold_the_same(cluster4):
    for said in cluster4.call(on_a_mesh):
        for kind, (across, within) in said.items():
            allowed = kind in ("columns", "rows", "vocabulary")
            assert (across == "nothing was raised") is allowed, kind
            assert "hold different parts of it" in within, kind


def a_pipelines_own_ranks(me) -> tuple[str, str]:
    stages = [nn.Linear(4, 4, bias=False) for _ in range(2)]
    pipeline = Pipeline(me, stages, one_f_one_b(2, 2), mean_square)
    alone = [dist.new_group([rank]) for rank in range(me.world_size)][me.rank]
    return message_of(lambda: average_gradients(pipeline)), message_of(lambda: average_gradients(pipeline, alone))


def test_different_stages_are_not_averaged(two):
    for within, alone in two.call(a_pipelines_own_ranks):
        assert "ranks 0, 1 of this group are in one pipeline, and hold different stages" in within
        assert alone == "nothing was raised"
