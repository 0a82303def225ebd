"""A transformer over sequences that are cut among ranks trains as one on one device does."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from split_cases import differ

from course_lib.cluster import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.context import (
    ContextParallelAttention,
    all_to_all_attention,
    context_loss,
    join_positions,
    own_positions,
    ring_attention,
    split_context,
)
from course_lib.parallel.data import DistributedDataParallel
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.sharded import FullySharded

pytestmark = pytest.mark.xdist_group("context")

CONFIG = TransformerConfig(
    vocab_size=11, context_length=16, num_layers=2, width=16, num_heads=8, num_kv_heads=4, hidden=10
)
NUM_STEPS, T = 5, 13
CHANGES = [{}, {"tied": True, "bias": True}]


def model_of(changes: dict) -> Transformer:
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, **changes)).double()


def tokens(batch_size: int = 2, length: int = T + 1) -> torch.Tensor:
    return torch.randint(11, (batch_size, length), generator=torch.Generator().manual_seed(1))


def trained_by_one(changes: dict) -> tuple[list[float], dict[str, torch.Tensor]]:
    model, given = model_of(changes), tokens()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        loss = next_token_loss(model(given[:, :-1]), given[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


WRAPS = {"DDP": DistributedDataParallel, "sharded": FullySharded}


def trained(me: Rank, cases: list[tuple]) -> list[tuple]:
    """For each case: by step this rank's part of the loss, and all weights."""
    found = []
    for way, order, changes, wrap, mesh in cases:
        groups = MeshGroups(me, mesh) if mesh else None
        group = groups.group("cp") if groups else None
        cut = SequenceCut(T, groups.members("cp").count if groups else me.world_size, order)
        model = WRAPS[wrap](me, split_context(me, model_of(changes), cut, way=way, group=group, tile=2))
        given = tokens()
        if groups:  # the data axis deals the samples, and the ranks of a sequence see the same
            given = given.chunk(mesh.size("dp_replicate"))[groups.coordinates["dp_replicate"]]
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
        for _ in range(NUM_STEPS):
            optimizer.zero_grad()
            loss = context_loss(me, model(given[:, :-1]), given[:, 1:], cut, group=group)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        weights = model.full_state_dict() if wrap == "sharded" else model.state_dict()
        found.append((losses, {name: value.clone() for name, value in weights.items()}))
        if groups:
            groups.close()
    return found


def check(cluster, cases: list[tuple]) -> None:
    ranks = cluster.call(trained, (cases,))
    for number, case in enumerate(cases):
        losses, weights = trained_by_one(case[2])
        by_rank = torch.tensor([rank[number][0] for rank in ranks])
        torch.testing.assert_close(by_rank.mean(0), torch.tensor(losses), rtol=0, atol=1e-6)
        for rank in ranks:
            got = rank[number][1]
            assert got.keys() == weights.keys()
            assert not differ(*((got[name], weights[name]) for name in weights)), case


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_losses_and_weights_after_five_steps_are_those_of_one_device(clusters, num_ranks):
    order = "contiguous" if num_ranks == 2 else "zigzag"
    cases = [("ring", order, changes, "DDP", None) for changes in CHANGES[: 1 + (num_ranks == 3)]]
    if num_ranks == 4:
        cases += [
            ("all_to_all", order, CHANGES[1], "DDP", None),
            ("ring", order, CHANGES[1], "sharded", None),
        ]
    check(clusters(num_ranks), cases)


def test_a_data_axis_beside_it(cluster4):
    """Gradients are averaged over both axes together."""
    check(cluster4, [("ring", "zigzag", CHANGES[0], "DDP", Mesh.of(dp_replicate=2, cp=2))])


@pytest.mark.long
def test_other_meshes_and_ways(cluster4, clusters):
    meshes = [Mesh.of(dp_replicate=2, cp=2), Mesh.of(cp=2, dp_replicate=2)]
    check(
        cluster4,
        [(way, order, changes, wrap, mesh)
         for mesh in meshes
         for way in ("ring", "all_to_all")
         for order in ("zigzag", "contiguous")
         for changes in CHANGES
         for wrap in WRAPS],
    )  # fmt: skip
    check(clusters(8), [("ring", "zigzag", CHANGES[1], "DDP", Mesh.of(dp_replicate=2, cp=4))])


def logits_without_gradients(me: Rank) -> torch.Tensor:
    cut = SequenceCut(T, me.world_size)
    with torch.no_grad():
        return split_context(me, model_of({}), cut)(tokens()[:, :-1])


def test_the_logits_are_those_of_the_model(cluster4):
    parts = list(cluster4.call(logits_without_gradients))
    wanted = model_of({})(tokens()[:, :-1]).detach()
    assert not differ((join_positions(SequenceCut(T, 4), parts), wanted))


def under_autocast(me: Rank) -> tuple[float, float, set[torch.dtype]]:
    """This rank's part of the loss, the norm of its gradients, and the dtypes that attention was given."""
    cut, given = SequenceCut(T, me.world_size), tokens()
    model = split_context(me, model_of({}).float(), cut)
    seen = set()
    model.blocks[0].attention.w_out.register_forward_pre_hook(lambda _, args: seen.add(args[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        loss = context_loss(me, model(given[:, :-1]), given[:, 1:], cut)
    loss.backward()
    squares = sum(p.grad.double().square().sum().item() for p in model.parameters())
    return loss.item(), squares**0.5, seen


def test_under_autocast_messages_have_16_bits_and_sums_32(cluster2, clusters):
    parts, (whole,) = cluster2.call(under_autocast), clusters(1).call(under_autocast)
    assert sum(loss for loss, _, _ in parts) / 2 == pytest.approx(whole[0], rel=1e-3)
    assert all(norm > 0 for _, norm, _ in parts)
    assert all(seen == {torch.bfloat16} for _, _, seen in parts)


# -- what PyTorch does ----------------------------------------------------------------------------------------


def test_zigzag_is_the_order_of_pytorch():
    """Its load balancer puts the first and the last parts together in the same way."""
    balancers = pytest.importorskip("torch.distributed.tensor.experimental._context_parallel._load_balancer")
    for num_ranks in (2, 4):
        theirs = balancers._HeadTailLoadBalancer(16, num_ranks, "cpu")._generate_indices(restore=False)
        cut = SequenceCut(16, num_ranks)
        assert theirs.flatten().tolist() == [p for place in range(num_ranks) for p in cut.positions(place)]


# -- bad input ------------------------------------------------------------------------------------------------

CUT = SequenceCut(8, 2)
_GOOD = (torch.zeros(1, 4, 4, 3), torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 4, 3))


def with_q(*shape: int, dtype: torch.dtype = torch.float32) -> tuple:
    return (torch.zeros(shape, dtype=dtype), *_GOOD[1:])


FAULTS = {
    "other ranks": (
        lambda me: ring_attention(me, *_GOOD, SequenceCut(8, 3)),
        "the cut is for 3 ranks (8 tokens, 3 ranks, zigzag), and 2 share the sequence: make it with num_ranks=2",
    ),
    "positions": (
        lambda me: ring_attention(me, *_GOOD, SequenceCut(10, 2)),
        "got 4 positions; its part of 10 tokens, 2 ranks, zigzag has",
    ),
    "dims": (lambda me: ring_attention(me, *with_q(4, 4, 3), CUT), "each has four dims"),
    "shapes": (lambda me: ring_attention(me, *with_q(1, 4, 4, 5), CUT), "they may differ only in the number of heads"),
    "shared heads": (
        lambda me: ring_attention(me, *with_q(1, 3, 4, 3), CUT),
        "3 query heads do not share 2 key/value heads evenly; the nearest number of query heads that does is 4",
    ),
    "dtypes": (
        lambda me: ring_attention(me, *with_q(1, 4, 4, 3, dtype=torch.float64), CUT),
        "they need one floating-point dtype",
    ),
    "tile": (lambda me: ring_attention(me, *_GOOD, CUT, tile=0), "tile=0 does not work"),
    "no cut": (lambda me: ring_attention(me, *_GOOD, 8), "cut=8 does not work"),
    "heads": (
        lambda me: all_to_all_attention(me, *(torch.zeros(1, 3, 4, 3) for _ in range(3)), CUT),
        "3 query heads do not divide among 2 ranks: all-to-all attention computes a head on one rank. Take 1 ranks",
    ),
    "heads of a model": (
        lambda me: split_context(me, Transformer(replace(CONFIG, num_kv_heads=1)), CUT, way="all_to_all"),
        "1 key/value heads do not divide among 2 ranks",
    ),
    "way": (lambda me: split_context(me, Transformer(CONFIG), CUT, way="round"), "way is 'round'; it is one of"),
    "dropout": (
        lambda me: split_context(me, Transformer(replace(CONFIG, dropout=0.1)), CUT),
        "dropout is 0.1; attention over a sequence that is cut among ranks has no dropout: set it to 0",
    ),
    "length": (
        lambda me: split_context(me, Transformer(CONFIG), CUT)(torch.zeros(1, 7, dtype=torch.int64)),
        "does not have 8 positions along dim 1, as the cut has: 8 tokens",
    ),
    "too long": (
        lambda me: split_context(me, Transformer(CONFIG), SequenceCut(17, 2)),
        "a sequence of 17 tokens is longer than context_length=16: take a sequence of 16",
    ),
    "targets": (
        lambda me: context_loss(me, torch.zeros(2, 8, 11), torch.zeros(2, 8, dtype=torch.int64), CUT),
        "logits have (2, 8) sequences and positions, and this rank's targets are (2, 4)",
    ),
    "loss of other ranks": (
        lambda me: context_loss(me, torch.zeros(2, 4, 11), torch.zeros(2, 8, dtype=torch.int64), SequenceCut(8, 4)),
        "the cut is for 4 ranks",
    ),
}


def said(me: Rank, faults: list) -> list[str]:
    answers = []
    for call in faults:
        try:
            answers.append(f"nothing was wrong: {call(me)}")
        except ValueError as error:
            answers.append(str(error))
    return answers


def test_bad_input_gets_a_sentence_before_anything_is_sent(cluster2):
    for answers in cluster2.call(said, ([call for call, _ in FAULTS.values()],)):
        for answer, (name, (_, wanted)) in zip(answers, FAULTS.items(), strict=True):
            assert wanted in answer, name


def left_by_an_error(me: Rank) -> bool:
    model = Transformer(replace(CONFIG, num_layers=2))
    model.blocks[1].attention.dropout.p = 0.5
    before = copy.copy(dict(model.named_modules()))
    with pytest.raises(ValueError, match=r"dropout is 0\.5"):
        split_context(me, model, CUT)
    return dict(model.named_modules()) == before


def test_an_error_leaves_the_model_as_it_was(cluster2):
    assert list(cluster2.call(left_by_an_error)) == [True, True]


def test_parts_of_another_sequence_are_told():
    with pytest.raises(ValueError, match=r"the parts have \[4, 3\] positions; the places of .* have \[4, 4\]"):
        join_positions(CUT, [torch.zeros(1, 4), torch.zeros(1, 3)])
    with pytest.raises(ValueError, match=r"place=2 is not there"):
        own_positions(CUT, 2, torch.zeros(1, 8))
    with pytest.raises(ValueError, match="does not have 8 positions along dim 4"):
        own_positions(CUT, 0, torch.zeros(1, 8), dim=4)


def test_the_weights_are_the_models_own(clusters):
    """No copy: an optimizer that was made before goes on."""

    def same(me: Rank) -> bool:
        model = Transformer(CONFIG)
        before = [id(p) for p in model.parameters()]
        split = split_context(me, model, SequenceCut(8, 1))
        return sorted(before) == sorted(id(p) for p in split.parameters()) and isinstance(
            split.blocks[0].attention, ContextParallelAttention
        )

    assert clusters(1).call(same)[0]
