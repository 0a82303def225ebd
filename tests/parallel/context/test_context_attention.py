"""Attention over a sequence that is cut among ranks is attention: outputs, gradients, and every size."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from split_cases import differ, drawn
from torch.utils.checkpoint import checkpoint

from course_lib.cluster import Rank
from course_lib.parallel.context import (
    RunningAttention,
    all_to_all_attention,
    attend,
    join_positions,
    own_positions,
    ring_attention,
)
from course_lib.sequence_cut import ORDERS, SequenceCut

pytestmark = pytest.mark.xdist_group("context")

WAYS = {"ring": ring_attention, "all_to_all": all_to_all_attention}
B, K = 2, 3
HEADS = [(4, 4), (8, 4)]  # query heads, key/value heads


def whole(num_tokens: int, heads: tuple[int, int]) -> list[torch.Tensor]:
    """q, k, v and the gradient of the output."""
    counts = (heads[0], heads[1], heads[1], heads[0])
    return [drawn(B, count, num_tokens, K, seed=seed) for seed, count in enumerate(counts)]


def oracle(num_tokens: int, heads: tuple[int, int], is_causal: bool) -> list[torch.Tensor]:
    """The output, and the gradients of q, k and v, by PyTorch's attention on one device."""
    q, k, v, grad = whole(num_tokens, heads)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, is_causal=is_causal, enable_gqa=True)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def parts(me: Rank, cases: list[tuple]) -> list[list[torch.Tensor]]:
    """For each case what this rank gets: its part of the output and of the gradients."""
    found = []
    for way, num_tokens, order, heads, is_causal, options in cases:
        cut = SequenceCut(num_tokens, me.world_size, order)
        q, k, v, grad = (own_positions(cut, me.rank, x, dim=2) for x in whole(num_tokens, heads))
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        out = WAYS[way](me, *leaves, cut, is_causal=is_causal, **options)
        found.append([out.detach(), *torch.autograd.grad(out, leaves, grad)])
    return found


def check(cluster, cases: list[tuple]) -> None:
    ranks = cluster.call(parts, (cases,))
    for number, (_, num_tokens, order, heads, is_causal, _) in enumerate(cases):
        cut = SequenceCut(num_tokens, cluster.world_size, order)
        joined = [
            join_positions(cut, list(each), dim=2) for each in zip(*(r[number] for r in ranks), strict=True)
        ]
        wanted = oracle(num_tokens, heads, is_causal)
        assert not differ(*zip(joined, wanted, strict=True)), cases[number]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_outputs_and_gradients_are_those_of_one_process(clusters, num_ranks):
    """Sizes that do not divide, a sequence of fewer positions than there are ranks, tiles that do not divide."""
    heads = [(h * 3 // 4, g * 3 // 4) for h, g in HEADS] if num_ranks == 3 else HEADS
    cases = [
        *((way, 13, order, heads[1], True, {}) for way in WAYS for order in ORDERS),
        *((way, 3, "zigzag", heads[0], True, {}) for way in WAYS),
        *((way, 8, "zigzag", heads[1], False, {}) for way in WAYS),
        ("ring", 16, "zigzag", heads[0], True, {"tile": 3}),
        ("ring", 13, "contiguous", heads[0], False, {"tile": 1}),
        ("ring", 7, "zigzag", (5, 5), True, {}),  # heads need not divide
    ]
    check(clusters(num_ranks), cases)


@pytest.mark.long
@pytest.mark.parametrize("num_ranks", [5, 8])
def test_more_ranks(clusters, num_ranks):
    cases = [
        (way, num_tokens, order, (2 * num_ranks, num_ranks), is_causal, {})
        for way, num_tokens, order, is_causal in itertools.product(WAYS, (5, 40, 41), ORDERS, (True, False))
    ]
    check(clusters(num_ranks), cases)


def test_partial_results_joined_in_any_order_are_the_whole():
    """Also where one part's scores are so large that their exponentials would overflow."""
    q, k, v, _ = whole(6, (4, 2))
    k[:, :, 4] *= 1e4
    wanted = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for order in itertools.permutations([slice(0, 1), slice(1, 4), slice(4, 6)]):
        running = RunningAttention(q)
        for keys in order:
            running.add(slice(None), *attend(q, k[:, :, keys], v[:, :, keys], is_diagonal=False))
        assert not differ((running.out, wanted))


def apart_under_autocast(me: Rank) -> float:
    """How far outputs and gradients in float32 are from those without autocast."""
    cut, found = SequenceCut(6, me.world_size), []
    for enabled in (False, True):
        q, k, v, grad = (own_positions(cut, me.rank, x, dim=2).float() for x in whole(6, (4, 2)))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = ring_attention(me, *leaves, cut)
            found.append([out.detach(), *torch.autograd.grad(out, leaves, grad)])
    return max((a - b).abs().max().item() for a, b in zip(*found, strict=True))


def test_autocast_leaves_the_sums_alone(cluster2):
    assert list(cluster2.call(apart_under_autocast)) == [0.0, 0.0]


def recomputed(me: Rank, way: str) -> list[list[torch.Tensor]]:
    """Gradients without and with activation checkpointing, of a sum, whose gradient is one number everywhere."""
    cut, found = SequenceCut(7, me.world_size), []
    for attention in (WAYS[way], partial(checkpoint, WAYS[way], use_reentrant=False)):
        leaves = [own_positions(cut, me.rank, x, dim=2).requires_grad_() for x in whole(7, (4, 2))[:3]]
        found.append(list(torch.autograd.grad(attention(me, *leaves, cut).sum(), leaves)))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_that_is_recomputed_sends_its_messages_anew(cluster2, way):
    for without, with_it in cluster2.call(recomputed, (way,)):
        assert any(gradient.abs().max() > 0 for gradient in without)
        assert not differ(*zip(without, with_it, strict=True))
