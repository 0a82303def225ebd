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
from course_lib.layouts.sequence_cut import ORDERS, SequenceCut
from course_lib.parallel.context import (
    RunningAttention,
    all_to_all_attention,
    attend,
    join_positions,
    own_positions,
    ring_attention,
)

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
        joined = [join_positions(cut, list(each), dim=2) for each in zip(*(r[number] for r in ranks), strict=True)]
        wanted = oracle(num_tokens, heads, is_causal)
        assert not differ(*zip(joined, wanted, strict=True)), cases[number]


@pytest.mark.first_cases(2)
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


def test_queries_without_keys_find_nothing_and_outputs_join_by_their_lse():
    """As pairs of an output and its log-sum-exp, minus infinity where a mask hides all keys, also on both sides."""
    running = RunningAttention(torch.zeros(1, 1, 3, 2))
    none, some = torch.full((1, 1, 2), -torch.inf), torch.zeros(1, 1, 2)
    running.add(slice(0, 2), torch.zeros(1, 1, 2, 2), none)
    running.add(slice(1, 3), torch.ones(1, 1, 2, 2), some)
    running.add(slice(1, 3), 4 * torch.ones(1, 1, 2, 2), some + torch.tensor(2.0).log())
    assert torch.equal(running.out[0, 0], torch.tensor([[0.0, 0.0], [3.0, 3.0], [3.0, 3.0]]))
    assert running.lse[0, 0, 0] == -torch.inf
    torch.testing.assert_close(running.lse[0, 0, 1:], torch.tensor([3.0, 3.0]).log())


def errors(found: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    """Root mean square differences to what float64 gives."""
    return [(a.double() - b).square().mean().sqrt().item() for a, b in zip(found, exact, strict=True)]


def sharp(me: Rank, factor: float) -> list[list[float]]:
    """Errors in float32 of the ring's output and gradients and of PyTorch's attention; q and k times ``factor``."""
    num_tokens = 256
    cut = SequenceCut(num_tokens, me.world_size)
    q, k, v, grad = (drawn(1, 2, num_tokens, 32, seed=seed).float() for seed in range(4))
    q, k = factor * q, factor * k

    def of_whole(dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out = F.scaled_dot_product_attention(*leaves, is_causal=True)
        found = [out.detach(), *torch.autograd.grad(out, leaves, grad.to(dtype))]
        return [own_positions(cut, me.rank, x, dim=2) for x in found]

    mine = [own_positions(cut, me.rank, x, dim=2) for x in (q, k, v, grad)]
    leaves = [x.detach().requires_grad_() for x in mine[:3]]
    out = ring_attention(me, *leaves, cut, tile=32)
    exact = of_whole(torch.float64)
    ours = [out.detach(), *torch.autograd.grad(out, leaves, mine[3])]
    return [errors(ours, exact), errors(of_whole(torch.float32), exact)]


@pytest.mark.parametrize("factor", [1.0, 6.0])
def test_large_scores_cost_no_more_digits_than_pytorchs_attention(cluster2, factor):
    """Joined by log-sum-exps, which are rounded at their own size, the output is 2 to 3 times as far off."""
    for ours, theirs in cluster2.call(sharp, (factor,)):
        assert all(0 < a < 1.3 * b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


def under_autocast(me: Rank) -> tuple[list[torch.dtype], list[float], list[float]]:
    """Dtypes of the output and of the gradients of q, k and v in float32, errors, those of PyTorch's attention."""
    cut, found = SequenceCut(6, me.world_size), []
    whole_q, whole_k, whole_v, whole_grad = whole(6, (4, 2))
    exact = [own_positions(cut, me.rank, x, dim=2) for x in oracle(6, (4, 2), is_causal=True)]
    for attention, dim in ((partial(ring_attention, me), 2), (F.scaled_dot_product_attention, None)):
        given = (whole_q, whole_k, whole_v, whole_grad)
        if dim is not None:
            given = tuple(own_positions(cut, me.rank, x, dim=dim) for x in given)
        leaves = [x.float().requires_grad_() for x in given[:3]]
        with torch.autocast("cpu", torch.bfloat16):
            options = {"is_causal": True, "enable_gqa": True} if dim is None else {"cut": cut}
            out = attention(*leaves, **options)
        found.append([out.detach(), *torch.autograd.grad(out, leaves, given[3].to(out.dtype))])
    ours, theirs = found
    theirs = [own_positions(cut, me.rank, x, dim=2) for x in theirs]
    assert [x.dtype for x in ours] == [x.dtype for x in theirs]
    return [x.dtype for x in ours], errors(ours, exact), errors(theirs, exact)


def test_under_autocast_it_casts_as_pytorchs_attention_does(cluster2):
    for dtypes, ours, theirs in cluster2.call(under_autocast):
        assert dtypes == [torch.bfloat16, *[torch.float32] * 3]
        assert all(0 < a < 1.5 * b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


def stays_float64_under_autocast(me: Rank) -> torch.dtype:
    cut = SequenceCut(6, me.world_size)
    q, k, v, _ = (own_positions(cut, me.rank, x, dim=2) for x in whole(6, (4, 2)))
    with torch.autocast("cpu", torch.bfloat16):
        return ring_attention(me, q, k, v, cut).dtype


def test_autocast_leaves_float64_alone(cluster2):
    assert list(cluster2.call(stays_float64_under_autocast)) == [torch.float64] * 2


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
