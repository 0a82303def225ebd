"""Dispatch without duplicates, and a choice of few nodes: against one process in float64, and by the meter's bytes."""

from __future__ import annotations

import itertools

import pytest
import torch
from expert_cases import WIDTH, layer_of, tokens_of

from course_lib.cost import distinct_groups
from course_lib.layouts.mesh import Mesh
from course_lib.meter import metered
from course_lib.models.transformer import Attention, TransformerConfig
from course_lib.parallel.experts import (
    DeduplicatedExperts,
    ExpertParallel,
    NodeGroups,
    SigmoidRouter,
    node_limited_choice,
    once_for_each,
)
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.tensor.attention import HeadParallelAttention

pytestmark = [
    pytest.mark.xdist_group("experts"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

TOKENS = (5, 0, 7, 2)
NUM_EXPERTS, TOP_K = 8, 3
WAYS = ("rank", "node", "limited")
CONFIG = TransformerConfig(vocab_size=4, context_length=6, num_layers=1, width=WIDTH, num_heads=2)


def whole_layer(way="rank", num_nodes=2):
    layer = layer_of(num_experts=NUM_EXPERTS, top_k=TOP_K)
    if way != "rank":
        max_nodes = 1 if way == "limited" else None
        router = SigmoidRouter(WIDTH, NUM_EXPERTS, top_k=TOP_K, num_nodes=num_nodes, max_nodes=max_nodes)
        router.load_state_dict(layer.router.state_dict())
        layer.router = router.double()
    return layer


def step(me, way, ranks_per_node, mode="training"):
    nodes = None if way == "rank" else NodeGroups(me, ranks_per_node)
    layer = DeduplicatedExperts(me, whole_layer(way, me.world_size // ranks_per_node), nodes=nodes)
    x = tokens_of(TOKENS[me.rank], seed=me.rank).requires_grad_()
    out = layer(x)
    grads = [x.new_zeros(0)]
    if mode == "training":
        out.square().sum().backward()
        grads = [x.grad, layer.router.weight.grad, layer.experts.w_up.grad, layer.experts.w_down.grad]
    found = [out.detach(), *grads, layer.routing.experts]
    if nodes is not None:
        nodes.close()
    return [one.cpu() for one in found]


@pytest.mark.parametrize(
    ("way", "num_ranks", "per_node"),
    [*((way, 4, 2) for way in WAYS), ("node", 4, 1), ("node", 4, 4), ("node", 2, 1), ("rank", 1, 1)],
)
def test_outputs_and_gradients_are_those_of_one_process(clusters, way, num_ranks, per_node):
    ranks = clusters(num_ranks).run(step, way, per_node)
    layer = whole_layer(way, num_ranks // per_node)
    x = torch.cat([tokens_of(TOKENS[rank], seed=rank) for rank in range(num_ranks)]).requires_grad_()
    out = layer(x)
    out.square().sum().backward()
    columns = list(zip(*ranks, strict=True))
    for found, right in zip(columns[:2], (out.detach(), x.grad), strict=True):
        torch.testing.assert_close(torch.cat(found), right, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(sum(columns[2]), layer.router.weight.grad, rtol=1e-9, atol=1e-12)
    for found, right in zip(columns[3:5], (layer.experts.w_up.grad, layer.experts.w_down.grad), strict=True):
        torch.testing.assert_close(torch.cat(found), right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", ["node", "limited"])
def test_between_nodes_goes_a_row_for_each_node_of_a_token(clusters, way):
    run = metered(clusters(4), step, way, 2, "forward")
    table = run.communication.matrix()
    for rank, other in itertools.product(range(4), repeat=2):
        if rank // 2 == other // 2:
            continue
        if rank % 2 != other % 2:
            assert table[rank][other] == 0  # rows change nodes between ranks of one local number
            continue
        going, coming = (((run[one][-1] // 4) == node).any(1).sum().item() for one, node in
                         ((rank, other // 2), (other, rank // 2)))  # fmt: skip
        there = going * (8 * WIDTH + 8 * TOP_K + 4 * TOP_K) + 8
        assert table[rank][other] == there + coming * 8 * WIDTH


def test_each_rank_gets_a_token_once(clusters):
    run = metered(clusters(4), step, "rank", 1, "forward")
    table = run.communication.matrix()
    stops = [run[rank][-1] // 2 for rank in range(4)]
    for rank, other in itertools.permutations(range(4), 2):
        going, coming = (stops[rank] == other).any(1).sum().item(), (stops[other] == rank).any(1).sum().item()
        assert table[rank][other] == going * (8 * WIDTH + 12 * TOP_K) + 8 + coming * 8 * WIDTH


def test_bfloat16_tokens_keep_their_dtype(clusters):
    def in_bfloat16(me):
        layer = DeduplicatedExperts(me, whole_layer().bfloat16())
        out = layer(tokens_of(3, seed=me.rank).bfloat16())
        return out.dtype

    assert set(clusters(2).run(in_bfloat16)) == {torch.bfloat16}


def test_what_does_not_fit_gets_a_sentence(clusters):
    def made(me, **options):
        with pytest.raises(ValueError, match=options.pop("match")):
            DeduplicatedExperts(me, layer_of(**options))

    clusters(2).run(made, num_experts=5, match="num_ranks=2 does not work")
    clusters(2).run(made, num_experts=4, capacity_factor=2.0, match="drops no token")

    def nodes(me):
        with pytest.raises(ValueError, match="ranks_per_node=3 does not work"):
            NodeGroups(me, 3)

    clusters(4).run(nodes)


# -- the choice ---------------------------------------------------------------------------------------------------


def by_hand(scores, top_k, num_nodes, max_nodes):
    """Token by token, in Python's sort, which keeps equals in their order."""
    rows, per_node = [], scores.size(1) // num_nodes
    for row in scores.tolist():
        best = -(-top_k // max_nodes)
        worth = [sum(sorted(row[n * per_node : (n + 1) * per_node])[::-1][:best]) for n in range(num_nodes)]
        near = sorted(range(num_nodes), key=lambda n: -worth[n])[:max_nodes]
        there = [e for e in range(len(row)) if e // per_node in near]
        rows.append(sorted(there, key=lambda e: -row[e])[:top_k])
    return torch.tensor(rows, dtype=torch.int64).view(len(scores), top_k)


@pytest.mark.parametrize(("top_k", "num_nodes", "max_nodes"), [(4, 4, 2), (3, 4, 2), (1, 4, 1), (4, 2, 1), (4, 8, 4)])
def test_few_nodes_are_chosen_as_by_hand(top_k, num_nodes, max_nodes):
    scores = torch.randint(9, (64, 16), generator=torch.Generator().manual_seed(0)).double()  # many are equal
    chosen = node_limited_choice(scores, top_k=top_k, num_nodes=num_nodes, max_nodes=max_nodes)
    assert torch.equal(chosen, by_hand(scores, top_k, num_nodes, max_nodes))
    assert max(len(row.unique()) for row in chosen // (16 // num_nodes)) <= max_nodes


def test_without_a_limit_the_best_are_chosen():
    scores = torch.rand(32, 16, generator=torch.Generator().manual_seed(0))
    for max_nodes in (4, 9):
        chosen = node_limited_choice(scores, top_k=5, num_nodes=4, max_nodes=max_nodes)
        assert torch.equal(chosen, scores.topk(5).indices)


def test_negative_scores_do_not_bring_far_experts_in():
    chosen = node_limited_choice(-torch.arange(1.0, 9).view(1, 8), top_k=4, num_nodes=2, max_nodes=1)
    assert chosen.tolist() == [[0, 1, 2, 3]]


def test_no_tokens_have_no_experts():
    assert node_limited_choice(torch.zeros(0, 8), top_k=2, num_nodes=4, max_nodes=2).shape == (0, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_k": 5, "num_nodes": 4, "max_nodes": 2}, "top_k=5 experts do not lie on max_nodes=2"),
        ({"top_k": 2, "num_nodes": 3, "max_nodes": 2}, "num_nodes=3 does not work"),
        ({"top_k": 0, "num_nodes": 4, "max_nodes": 2}, "top_k=0"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        node_limited_choice(torch.zeros(1, 8), **options)
    with pytest.raises(ValueError, match=words):
        SigmoidRouter(WIDTH, 8, **options)


def test_a_sigmoid_routers_weights_add_up_and_its_bias_moves_the_choice_alone():
    torch.manual_seed(0)
    router = SigmoidRouter(WIDTH, 8, top_k=2, num_nodes=4, max_nodes=1).double()
    x = tokens_of(6)
    scores = (x @ router.weight.T).sigmoid()
    routing = router(x)
    torch.testing.assert_close(routing.weights.sum(1), torch.ones(6).double())
    torch.testing.assert_close(routing.probabilities, scores / scores.sum(1, keepdim=True))
    assert ((routing.experts // 2).amax(1) == (routing.experts // 2).amin(1)).all()
    assert routing.kept.all()
    router.selection_bias[6:] += 10
    moved = router(x)
    assert set(moved.experts.flatten().tolist()) == {6, 7}
    best = scores.gather(1, moved.experts)
    torch.testing.assert_close(moved.weights, best / best.sum(1, keepdim=True))
    with pytest.raises(ValueError, match="this router reads tokens of width 4"):
        router(torch.zeros(2, 5))


# -- rows, counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_experts", "top_k", "num_groups"), [(6, 2, 3), (8, 3, 4), (6, 6, 2), (4, 1, 4), (5, 2, 1)]
)
def test_distinct_groups_is_the_mean_over_all_choices(num_experts, top_k, num_groups):
    per_group = num_experts // num_groups
    sets = list(itertools.combinations(range(num_experts), top_k))
    mean = sum(len({expert // per_group for expert in one}) for one in sets) / len(sets)
    found = distinct_groups(num_experts=num_experts, top_k=top_k, num_groups=num_groups)
    assert found == pytest.approx(mean)
    rows, sizes = once_for_each(torch.tensor(sets) // per_group, num_groups)
    assert sum(sizes) == len(rows) == round(mean * len(sets))


def test_distinct_groups_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="nearest that works is 4"):
        distinct_groups(num_experts=4, top_k=5, num_groups=2)
    with pytest.raises(ValueError, match="num_groups=3 does not work"):
        distinct_groups(num_experts=4, top_k=1, num_groups=3)


# -- attention and experts on meshes of their own ------------------------------------------------------------------


def folded(me, sequence_parallel):
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, tp=2))
    torch.manual_seed(7)
    attention = Attention(CONFIG).double()
    own = HeadParallelAttention(me, attention, group=groups.group("tp"), sequence_parallel=sequence_parallel)
    experts = ExpertParallel(me, layer_of(num_experts=8, top_k=2))
    place = groups.coordinates
    x = torch.stack([tokens_of(6, seed=seed) for seed in (2 * place["dp_replicate"], 2 * place["dp_replicate"] + 1)])
    x = x.chunk(2, 1)[place["tp"]] if sequence_parallel else x
    y = experts(x + own(x))
    y.square().mean().backward()
    groups.close()
    found = y.detach(), experts.router.weight.grad, experts.experts.w_up.grad, own.w_q.weight.grad
    return [one.cpu() for one in found]


@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_experts_over_the_ranks_of_a_tensor_parallel_group(clusters, sequence_parallel):
    outs, routers, ups, queries = zip(*clusters(4).run(folded, sequence_parallel), strict=True)
    torch.manual_seed(7)
    attention, layer = Attention(CONFIG).double(), layer_of(num_experts=8, top_k=2)
    x = torch.stack([tokens_of(6, seed=seed) for seed in range(4)])
    y = layer(x + attention(x))
    y.square().mean().backward()
    halves = [torch.cat(outs[i : i + 2], 1) for i in (0, 2)] if sequence_parallel else outs[::2]
    torch.testing.assert_close(torch.cat(halves), y.detach())
    torch.testing.assert_close(sum(routers) / 4, layer.router.weight.grad)
    torch.testing.assert_close(torch.cat(ups) / 4, layer.experts.w_up.grad)
    of_rank_0 = (queries[0] + queries[2]) / (4 if sequence_parallel else 2)
    torch.testing.assert_close(of_rank_0, attention.w_q.weight.grad[: WIDTH // 2])
