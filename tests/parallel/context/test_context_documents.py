"""Attention within packed documents, cut among ranks: outputs, gradients, work and bytes, by every order."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from split_cases import differ, drawn

from course_lib.cluster import Rank
from course_lib.cost import ring_attention_sent_bytes, ring_pairs
from course_lib.layouts import DocumentCut, SequenceCut
from course_lib.layouts.document_orders import ORDERS
from course_lib.layouts.position_cut import PositionCut
from course_lib.meter import metered
from course_lib.models import TransformerConfig
from course_lib.parallel.context import (
    all_to_all_attention,
    document_mask,
    join_positions,
    own_positions,
    ring_attention,
)

pytestmark = pytest.mark.xdist_group("context")

WAYS = {"ring": ring_attention, "all_to_all": all_to_all_attention}
B, H, G, K = 2, 8, 4, 3


def whole(num_tokens: int) -> list[torch.Tensor]:
    """q, k, v and the gradient of the output."""
    return [drawn(B, heads, num_tokens, K, seed=seed) for seed, heads in enumerate((H, G, G, H))]


def oracle(lengths: tuple[int, ...], is_causal: bool) -> list[torch.Tensor]:
    """The output, and the gradients of q, k and v, by PyTorch's attention, each document alone."""
    q, k, v, grad = whole(sum(lengths))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    alone = zip(*(x.split(lengths, dim=2) for x in leaves), strict=True)
    out = torch.cat(
        [F.scaled_dot_product_attention(*one, is_causal=is_causal, enable_gqa=True) for one in alone], dim=2
    )
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def parts(me: Rank, cases: list[tuple]) -> list[tuple[list[torch.Tensor], list[int]]]:
    found = []
    for way, cut, is_causal, options in cases:
        q, k, v, grad = (own_positions(cut, me.rank, x, dim=2) for x in whole(cut.num_tokens))
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        counts: list[int] = []
        more = {"pair_counts": counts} if way == "ring" else {}
        out = WAYS[way](me, *leaves, cut, is_causal=is_causal, **options, **more)
        found.append(([out.detach(), *torch.autograd.grad(out, leaves, grad)], counts))
    return found


def check(cluster, packings: list[tuple[int, ...]]) -> None:
    n = cluster.world_size
    skip = {"skip_unseen": True}
    cases = []
    for lengths in packings:
        cuts = [DocumentCut.by_order(lengths, n, order) for order in ORDERS]
        cuts.append(DocumentCut(lengths, tuple(tuple(range(r, sum(lengths), n)) for r in range(n))))  # single positions
        cases += [("ring", cut, True, options) for cut in cuts for options in ({}, skip)]
        cases += [("all_to_all", cuts[0], True, {}), ("all_to_all", cuts[-1], False, {})]
        cases += [("ring", cuts[1], False, skip), ("ring", cuts[-2], True, {"tile": 2, **skip})]
    ranks = cluster.call(parts, (cases,))
    for number, (way, cut, is_causal, _) in enumerate(cases):
        found = [rank[number] for rank in ranks]
        joined = [join_positions(cut, list(each), dim=2) for each in zip(*(values for values, _ in found), strict=True)]
        assert not differ(*zip(joined, oracle(cut.lengths, is_causal), strict=True)), cases[number]
        if way == "ring":
            counted = tuple(zip(*(counts for _, counts in found), strict=True))
            assert counted == ring_pairs(cut, is_causal=is_causal)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [4, 2, 1])
def test_outputs_gradients_and_pairs_are_those_of_one_process(clusters, num_ranks):
    check(clusters(num_ranks), [(10, 2, 2, 2), (3, 1, 7, 2), (1, 1)])


def test_the_mask_is_that_of_each_document_alone():
    q, k, v, _ = whole(9)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=document_mask([3, 1, 5]), enable_gqa=True)
    assert not differ((out, oracle((3, 1, 5), True)[0]))


def a_pass(me: Rank, cut: PositionCut, skips: bool, backward: bool) -> None:
    shapes = [(B, heads, cut.size(me.rank), K) for heads in (H, G, G, H)]
    *leaves, grad = (torch.ones(shape, requires_grad=i < 3) for i, shape in enumerate(shapes))
    out = ring_attention(me, *leaves, cut, skip_unseen=skips)
    if backward:
        out.backward(grad)


def needed(cut: PositionCut, place: int) -> tuple[int, int]:
    """How many keys and how many sums a place sends on, position by position from the definition."""
    n, lengths = cut.num_ranks, getattr(cut, "lengths", (cut.num_tokens,))
    mask = document_mask(lengths)
    keys = sums = 0
    for step in range(n):
        owner = (place - step) % n
        for key in cut.positions(owner):
            looks = [bool(mask[cut.positions((owner + hop) % n), key].any()) for hop in range(n)]
            keys += step < n - 1 and any(looks[step + 1 :])
            sums += step > 0 and any(looks[1 : step + 1])
    return keys, sums


@pytest.mark.parametrize("order", ["zigzag", "even"])
def test_the_meter_sees_what_is_needed_and_no_more(cluster4, order):
    """The library goes by runs: for these, whose keys are seen all or not at all, that is position by position."""
    config = TransformerConfig(width=H * K, num_heads=H, num_kv_heads=G)
    number = 2 * B * G * K * 4  # a position's keys and values, in bytes
    cut = DocumentCut.by_order((10, 2, 8, 4), 4, order)
    for skips, backward in itertools.product((False, True), repeat=2):
        sent = metered(cluster4, a_pass, cut, skips, backward).communication
        for place in range(4):
            keys, sums = needed(cut, place)
            wanted = number * (keys + backward * (keys + sums))
            if not skips:
                bytes_of = ring_attention_sent_bytes(config, cut, place, batch_size=B)
                wanted = bytes_of.total if backward else bytes_of.forward
            assert sent.sent_bytes(place) == wanted


def test_a_causal_sequence_may_skip_as_well(cluster2):
    """Contiguous: rank 1's keys are nobody else's business, so rank 1 sends none."""
    sent = metered(cluster2, a_pass, SequenceCut(8, 2, "contiguous"), True, False).communication
    assert [sent.sent_bytes(place) for place in (0, 1)] == [2 * B * G * K * 4 * 4, 0]


def refused(me: Rank) -> list[str]:
    said = []
    cut = DocumentCut.by_order((3, 5), 3, "even")
    q, k, v, _ = whole(4)
    for way in WAYS.values():
        try:
            way(me, q, k, v, cut)
        except ValueError as error:
            said.append(str(error))
    return said


def test_a_cut_for_other_ranks_is_refused_with_a_sentence(cluster2):
    for said in cluster2.call(refused):
        assert len(said) == 2
        assert all("the cut is for 3 ranks (8 tokens in 2 documents, 3 ranks), and 2 share" in one for one in said)
