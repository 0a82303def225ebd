"""Packed documents among ranks, as data: who has what, who looks at what, and what is said of a cut that is none."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from course_lib.cost import ring_balance, ring_pairs
from course_lib.layouts import DocumentCut, SequenceCut
from course_lib.layouts.document_orders import ORDERS, by_work
from course_lib.parallel.context import document_mask

PACKINGS = [(40, 8, 8, 8), (1,), (7,), (1, 1, 1), (3, 5, 1, 9), (2,) * 7]
CUTS = [
    DocumentCut.by_order(lengths, num_ranks, order)
    for lengths, num_ranks, order in itertools.product(PACKINGS, (1, 2, 3, 4), ORDERS)
]


def test_every_position_has_one_place():
    for cut in CUTS:
        places = [cut.positions(place) for place in range(cut.num_ranks)]
        assert sorted(itertools.chain(*places)) == list(range(cut.num_tokens))
        assert cut.sizes == tuple(map(len, places))
        assert all(own == sorted(own) for own in places)


@pytest.mark.parametrize("is_causal", [True, False])
def test_pairs_tiles_and_seen_keys_are_those_of_the_mask(is_causal):
    for cut, tile in itertools.product(CUTS, (1, 3, 100)):
        mask = document_mask(cut.lengths, is_causal=is_causal)
        for mine, theirs in itertools.product(range(cut.num_ranks), repeat=2):
            queries, keys = cut.positions(mine), cut.positions(theirs)
            wanted = {(q, k) for q in queries for k in keys if mask[q, k]}
            seen, num_pairs = set(), 0
            for pair in cut.tile_pairs(mine, theirs, tile=tile, is_causal=is_causal):
                tile_q, tile_k = queries[pair.queries], keys[pair.keys]
                assert max(len(tile_q), len(tile_k)) <= tile
                seen |= {(q, k) for q in tile_q for k in tile_k if not pair.is_diagonal or k <= q}
                num_pairs += pair.num_pairs
            assert seen == wanted
            assert num_pairs == len(wanted) == cut.num_pairs(mine, theirs, is_causal=is_causal)
            looked_at = [
                keys[i] for where in cut.seen_by(theirs, [mine], is_causal=is_causal) for i in range(len(keys))[where]
            ]
            assert set(looked_at) >= {k for _, k in wanted}
            assert is_causal or set(looked_at) == {k for _, k in wanted}


def test_one_document_is_a_sequence():
    for num_tokens, num_ranks, order in itertools.product((1, 8, 13), (1, 2, 4), ("zigzag", "contiguous")):
        one, other = DocumentCut.by_order([num_tokens], num_ranks, order), SequenceCut(num_tokens, num_ranks, order)
        assert ring_pairs(one) == ring_pairs(other)
        assert [one.runs(place) for place in range(num_ranks)] == [other.runs(place) for place in range(num_ranks)] or (
            order == "zigzag"  # the two runs of the last place may touch
        )


def test_even_is_even():
    """Tokens to within one, pairs to within twice the number of ranks, and at most four runs a document."""
    draw = random.Random(0)
    for _ in range(300):
        num_ranks = draw.randint(1, 9)
        lengths = [draw.randint(1, draw.choice((4, 40, 150))) for _ in range(draw.randint(1, 12))]
        cut = DocumentCut.by_order(lengths, num_ranks, "even")
        pairs = [sum(own) for own in zip(*ring_pairs(cut), strict=True)]
        assert max(cut.sizes) - min(cut.sizes) <= 1
        assert max(pairs) - min(pairs) <= min(2 * num_ranks, max(lengths))
        runs = [1 + sum(b != a + 1 for a, b in itertools.pairwise(own)) for own in cut.owned]
        assert max(runs) <= 4 * len(lengths)


def test_where_all_lengths_divide_every_step_is_even():
    for order in ("per_document", "even"):
        cut = DocumentCut.by_order((40, 8, 16), 4, order)
        assert all(len(set(step)) == 1 for step in ring_pairs(cut))
        assert ring_balance(cut) == 1.0


def test_work_handed_out_is_even_in_sum_and_not_in_every_step():
    cut = DocumentCut.by_order((40, 8, 8, 8), 4, "by_work")
    assert {sum(own) for own in zip(*ring_pairs(cut), strict=True)} == {232}
    assert ring_balance(cut) == pytest.approx(0.547, abs=1e-3)
    assert sorted(map(len, by_work([10], 3, block=2))) == [2, 4, 4]


def test_per_document_is_pytorchs_where_lengths_divide():
    balancers = pytest.importorskip("torch.distributed.tensor.experimental._context_parallel._load_balancer")
    for lengths, num_ranks in (((40, 8, 16), 4), ((4, 12), 2)):
        indices = balancers._PerDocumentHeadTailLoadBalancer([list(lengths)], num_ranks, "cpu")._generate_indices()[0]
        # PyTorch leaves the documents one after the other; a rank takes its share of each.
        cut, start = DocumentCut.by_order(lengths, num_ranks, "per_document"), 0
        theirs: list[list[int]] = [[] for _ in range(num_ranks)]
        for length in lengths:
            for place, part in enumerate(indices[start : start + length].chunk(num_ranks)):
                theirs[place] += part.tolist()
            start += length
        assert [list(own) for own in cut.owned] == theirs
    with pytest.raises(AssertionError):
        balancers._PerDocumentHeadTailLoadBalancer([[3]], 2, "cpu")._generate_indices()


def test_a_cut_is_hashed_compared_and_said():
    one, other = (DocumentCut((2, 1), ((0, 2), (1,))) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert str(one) == "3 tokens in 2 documents, 2 ranks"
    assert one.runs(0) == (range(0, 1), range(2, 3))
    assert DocumentCut((2, 1), ((1, 2), (0,))).runs(0) == (range(1, 2), range(2, 3))  # no run reaches over a border


BAD = [
    (((), ((),)), "num_documents"),
    (((2, 0), ((0,), (1,))), "document 1 has 0 tokens; a document has at least 1: leave it out"),
    (((2,), ()), "num_ranks"),
    (((2,), ((0, 2), (1,))), "place 0 has position 2, and the documents have positions 0 to 1"),
    (((2,), ((1, 0), ())), "place 0 has position 0 after 1; give them in rising order"),
    (((2,), ((0, 1), (1,))), "position 1 is at place 0 and at place 1"),
    (((3,), ((0,), (2,))), "no place has position 1; each of 0 to 2 has one"),
]


@pytest.mark.parametrize(("args", "said"), BAD)
def test_what_is_no_cut_is_said(args, said):
    with pytest.raises(ValueError, match=said):
        DocumentCut(*args)


def test_orders_places_and_masks_that_are_not_there():
    with pytest.raises(ValueError, match="snake"):
        DocumentCut.by_order((2,), 2, "snake")
    with pytest.raises(ValueError, match="place=2 is not there"):
        DocumentCut.by_order((2,), 2, "even").runs(2)
    with pytest.raises(ValueError, match="document 0 has 0 tokens"):
        document_mask([0])
    assert torch.equal(document_mask([2, 1]), torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]]).bool())
