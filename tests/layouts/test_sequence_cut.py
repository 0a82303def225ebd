"""A sequence cut among ranks, as data: every position has one place, and pairs are those of a causal mask."""

from __future__ import annotations

import itertools

import pytest

from course_lib.layouts.sequence_cut import ORDERS, SequenceCut

CUTS = [
    SequenceCut(num_tokens, num_ranks, order)
    for num_tokens, num_ranks, order in itertools.product((1, 3, 8, 13, 16), (1, 2, 3, 4), ORDERS)
]


def test_every_position_has_one_place_and_places_are_even():
    for cut in CUTS:
        places = [cut.positions(place) for place in range(cut.num_ranks)]
        assert sorted(itertools.chain(*places)) == list(range(cut.num_tokens))
        assert all(positions == sorted(positions) for positions in places)
        assert cut.sizes == tuple(map(len, places))
        assert max(cut.sizes) - min(cut.sizes) <= (1 if cut.order == "contiguous" else 2)


def test_the_example_of_the_docstring():
    assert SequenceCut(8, 2, "contiguous").positions(1) == [4, 5, 6, 7]
    assert [SequenceCut(8, 2).positions(place) for place in (0, 1)] == [[0, 1, 6, 7], [2, 3, 4, 5]]


@pytest.mark.parametrize("is_causal", [True, False])
def test_pairs_and_tiles_are_those_of_the_mask(is_causal):
    for cut, tile in itertools.product(CUTS, (1, 3, 100)):
        for mine, theirs in itertools.product(range(cut.num_ranks), repeat=2):
            queries, keys = cut.positions(mine), cut.positions(theirs)
            wanted = [(q, k) for q in queries for k in keys if k <= q or not is_causal]
            seen = []
            for pair in cut.tile_pairs(mine, theirs, tile=tile, is_causal=is_causal):
                tile_q, tile_k = queries[pair.queries], keys[pair.keys]
                assert max(len(tile_q), len(tile_k)) <= tile
                seen += [(q, k) for q in tile_q for k in tile_k if k <= q or not pair.is_diagonal]
                assert is_causal or not pair.is_diagonal
            assert sorted(seen) == sorted(wanted)
            assert cut.num_pairs(mine, theirs, is_causal=is_causal) == len(wanted)


def test_the_text_is_read_back():
    for cut in CUTS:
        assert SequenceCut.parse(str(cut)) == cut
    assert str(SequenceCut(10, 4)) == "10 tokens, 4 ranks, zigzag"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SequenceCut(0, 2), "num_tokens=0 does not work.*nearest that works is 1"),
        (lambda: SequenceCut(8, 0), "num_ranks=0 does not work"),
        (lambda: SequenceCut(8, 2, "zigzack"), "order is 'zigzack'.*Did you mean 'zigzag'"),
        (lambda: SequenceCut(8, 2).size(2), "place=2 is not there.*places are 0 to 1"),
        (lambda: list(SequenceCut(8, 2).tile_pairs(0, 1, tile=0)), "tile=0 does not work"),
        (lambda: SequenceCut.parse("8 tokens on 2 ranks"), "write it as '10 tokens, 4 ranks, zigzag'"),
    ],
)
def test_bad_input_gets_a_sentence(make, said):
    with pytest.raises(ValueError, match=said):
        make()
