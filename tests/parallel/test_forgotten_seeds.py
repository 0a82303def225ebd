"""Ranks that were given different models: whoever keeps copies that nobody averages says so, once, on all ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from ddp_cases import message_of
from mesh_cases import CONFIG
from torch import nn

from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.meter import metered
from course_lib.models import Transformer
from course_lib.parallel.context import ContextParallelAttention, ContextStem, split_context
from course_lib.parallel.data import broadcast_parameters
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.model import ModelParallel
from course_lib.parallel.model.cutting import cut
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    HeadParallelAttention,
    RowParallelLinear,
    SequenceParallelNorm,
    VocabParallelEmbedding,
    split_block,
    split_transformer,
)
from course_lib.schedules import one_f_one_b

pytestmark = [
    pytest.mark.xdist_group("forgotten_seeds"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

TIED = replace(CONFIG, tied=True)
CUT = SequenceCut(6, 2)
NOTHING = "nothing was raised"


def drawn(module: nn.Module) -> nn.Module:
    """Every parameter from the generator, also biases and norms."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def pipeline_of(me, model, **options):
    stages = cut(model, [range(0, 2), range(2, 4)])
    return Pipeline(me, stages, one_f_one_b(2, 2), nn.functional.mse_loss, **options)


# By strategy: the whole model, how it is built, the first name that differs, and what the sentence calls it.
STRATEGIES = {
    "columns": (lambda: nn.Linear(4, 4), ColumnParallelLinear, "weight", "ColumnParallelLinear"),
    "rows": (lambda: nn.Linear(4, 4), RowParallelLinear, "weight", "RowParallelLinear"),
    "norm": (lambda: nn.LayerNorm(4), SequenceParallelNorm, "weight", "SequenceParallelNorm"),
    "vocabulary": (lambda: nn.Embedding(4, 3), VocabParallelEmbedding, "weight", "VocabParallelEmbedding"),
    "heads": (lambda: Transformer(CONFIG).blocks[0].attention, HeadParallelAttention, "w_q.weight", "HeadParallel"),
    "block": (lambda: Transformer(CONFIG).blocks[0], split_block, "norm1.weight", "split_block"),
    "transformer": (lambda: Transformer(CONFIG), split_transformer, "stem.tokens.weight", "split_transformer"),
    "experts": (lambda: MixtureOfExperts(4, hidden=3, num_experts=4), ExpertParallel, "router.weight", "ExpertPara"),
    "context": (
        lambda: Transformer(CONFIG),
        lambda me, model, group=None: split_context(me, model, CUT, group=group),
        *("stem.tokens.weight", "split_context"),
    ),
    "attention over a context": (
        lambda: Transformer(CONFIG).blocks[0].attention,
        lambda me, whole, group=None: ContextParallelAttention(me, whole, CUT, group=group),
        *("w_q.weight", "ContextParallelAttention"),
    ),
    "stem of a context": (
        lambda: Transformer(CONFIG).stem,
        lambda me, whole, group=None: ContextStem(me, whole, CUT, group=group),
        *("tokens.weight", "ContextStem"),
    ),
}
IN_STAGES = {
    "parts": (
        lambda: Transformer(TIED),
        lambda me, model: ModelParallel(me, cut(model, [range(0, 2), range(2, 4)])),
        *("0.stem.tokens.weight = 1.head.w_vocab.weight", "ModelParallel"),
    ),
    "stages": (
        lambda: Transformer(TIED),
        pipeline_of,
        *("0.stem.tokens.weight = 1.head.w_vocab.weight", "Pipeline"),
    ),
}
ALL = {**STRATEGIES, **IN_STAGES}


def built(me, name: str, seeds: tuple[int, ...], then=lambda me, model: None) -> str:
    """What is said where each rank draws its model by a seed of its own."""
    make, build, *_ = ALL[name]
    torch.manual_seed(seeds[me.rank])
    model = drawn(make())
    then(me, model)
    return message_of(lambda: build(me, model))


@pytest.mark.parametrize("name", ALL)
def test_a_forgotten_seed_is_told_on_all_ranks(cluster2, name):
    *_, parameter, strategy = ALL[name]
    assert list(cluster2.call(built, (name, (0, 0)))) == [NOTHING] * 2
    first, second = cluster2.call(built, (name, (0, 1)))
    assert first == second
    assert first.startswith(f"ranks 0 and 1 differ in {parameter}")
    assert f": {strategy}" in first
    assert "torch.manual_seed(0) just before it" in first
    assert first.endswith("broadcast_parameters(me, model)")


@pytest.mark.parametrize("name", ALL)
def test_the_cure_that_is_told_cures(cluster2, name):
    assert list(cluster2.call(built, (name, (0, 1), broadcast_parameters))) == [NOTHING] * 2


def changed(me, name: str, path: str, rank: int) -> str:
    """The same seed, and one number that is another one on one rank."""
    make, build, *_ = ALL[name]
    torch.manual_seed(0)
    model = drawn(make())
    if me.rank == rank:
        with torch.no_grad():
            model.get_parameter(path).view(-1)[-1:].mul_(1 + 1e-6)
    return message_of(lambda: build(me, model))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("rows", "bias"),
        ("norm", "bias"),
        ("transformer", "blocks.1.norm2.bias"),
        ("transformer", "stem.positions.weight"),
        ("experts", "router.weight"),
        ("context", "head.norm.weight"),
    ],
)
def test_one_number_of_a_copy_is_enough(cluster2, name, path):
    for said in cluster2.call(changed, (name, path, 1)):
        assert said.startswith(f"ranks 0 and 1 differ in {path}: ")


def test_what_no_other_rank_will_hold_may_differ_in_stages(cluster2):
    """A stage belongs to one rank alone: from another seed it is another model, and no copy."""
    assert list(cluster2.call(changed, ("stages", "blocks.0.mlp.w_up.weight", 1))) == [NOTHING] * 2


def in_groups(me, name: str) -> str:
    """Ranks 2 and 3 share a model of which rank 3 has another one."""
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, tp=2))
    make, build, *_ = ALL[name]
    torch.manual_seed(me.rank == 3)
    model = drawn(make())
    said = message_of(lambda: build(me, model, group=groups.group("tp")))
    groups.close()
    return said


@pytest.mark.parametrize("name", STRATEGIES)
def test_ranks_of_a_group_are_compared_and_no_others(cluster4, name):
    *_, parameter, _ = ALL[name]
    said = list(cluster4.call(in_groups, (name,)))
    assert said[:2] == [NOTHING] * 2
    assert said[2] == said[3]
    assert said[2].startswith(f"ranks 2 and 3 differ in {parameter}")
    assert said[2].endswith("broadcast_parameters(me, model, group=group)")


def in_two_pipelines(me, odd: int | None) -> str:
    torch.manual_seed(me.rank == odd)
    ranks = ([0, 1], [3, 2])[me.rank // 2]  # the second one begins at its last rank
    model = drawn(Transformer(TIED))
    return message_of(lambda: pipeline_of(me, model, ranks=ranks))


def test_tied_weights_are_compared_among_the_ranks_of_a_pipeline(cluster4):
    assert list(cluster4.call(in_two_pipelines, (None,))) == [NOTHING] * 4
    said = list(cluster4.call(in_two_pipelines, (2,)))
    assert said[:2] == [NOTHING] * 2
    assert said[2] == said[3]
    assert said[2].startswith("ranks 2 and 3 differ in 0.stem.tokens.weight = 1.head.w_vocab.weight: Pipeline")


def majority(me) -> str:
    torch.manual_seed(0)
    whole = nn.Linear(4, 4)
    if me.rank == 2:
        nn.init.zeros_(whole.bias)
    return message_of(lambda: RowParallelLinear(me, whole))


def test_the_rank_that_differs_from_the_others_is_named(cluster4):
    for said in cluster4.call(majority):
        assert said.startswith("rank 2 differs from the others in bias: RowParallelLinear")


def tied_on_one_rank(me) -> str:
    torch.manual_seed(0)
    model = Transformer(TIED if me.rank else CONFIG)
    return message_of(lambda: pipeline_of(me, model))


def test_weights_that_are_shared_on_one_rank_alone_are_told_before_anybody_waits(cluster2):
    for said in cluster2.call(tied_on_one_rank):
        assert said.startswith(
            "rank 0 has nothing where rank 1 has 0.stem.tokens.weight = 1.head.w_vocab.weight (13, 8)"
        )


# -- cost ------------------------------------------------------------------------------------------------------------


def built_alike(me, name: str) -> None:
    assert built(me, name, (0, 0)) == NOTHING


@pytest.mark.parametrize("name", ALL)
def test_it_is_one_message_of_eight_bytes_while_it_is_built(cluster2, name):
    seen = metered(cluster2, built_alike, name).communication
    assert seen.calls == ()
    for rank in (0, 1):
        (call,) = (call for call in seen.construction if call.rank == rank)
        assert (call.operation, call.sent_bytes) == ("all_gather", {1 - rank: 8})
    assert str(seen) == (
        "no communication\nbesides, to compare models while they are built: 1 message a rank, 16 B in all"
    )


def test_ranks_without_a_group_send_each_other_as_much(cluster4):
    seen = metered(cluster4, in_two_pipelines, None).communication
    assert seen.calls == ()
    sent = [(call.rank, call.sent_bytes) for call in seen.construction if call.operation == "send"]
    assert sorted(sent, key=str) == [(0, {1: 8}), (1, {0: 8}), (2, {3: 8}), (3, {2: 8})]


def a_rank_alone(me) -> str:
    alone = [dist.new_group([rank]) for rank in range(me.world_size)][me.rank]
    torch.manual_seed(me.rank)
    return message_of(lambda: RowParallelLinear(me, nn.Linear(4, 4), group=alone))


def test_a_rank_alone_asks_nobody(cluster2):
    run = metered(cluster2, a_rank_alone)
    assert list(run) == [NOTHING] * 2
    assert (run.communication.calls, run.communication.construction) == ((), ())
