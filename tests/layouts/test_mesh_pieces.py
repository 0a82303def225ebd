"""Pieces of a matrix on a mesh: every number is where the axes say, however they are ordered, and whatever divides."""

from __future__ import annotations

import itertools

import pytest
import torch

from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece, holders_of_pieces, piece_of
from course_lib.layouts.row_partition import rounded_up_range, split_sizes

SIZES = [(1, 1, 1, 1), (2, 1, 2, 2), (1, 2, 3, 2), (2, 2, 1, 3), (1, 1, 4, 1), (3, 1, 1, 2)]
AXES = ("pp", "dp_replicate", "dp_shard", "tp")


def by_pytorch(mesh: Mesh, rank: int, whole: torch.Tensor, tp_dim: int | None) -> torch.Tensor:
    """What a rank keeps, cut by torch: ``tensor_split`` deals out evenly, ``chunk`` rounds up."""
    here = mesh.coordinates(rank)
    if tp_dim is not None:
        whole = whole.tensor_split(mesh.size("tp"), tp_dim)[here.get("tp", 0)]
    parts = whole.chunk(mesh.size("dp_shard"))
    place = here.get("dp_shard", 0)
    return parts[place] if place < len(parts) else whole[:0]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("shape", "tp_dim"), [((7, 5), 0), ((7, 5), 1), ((7, 5), None), ((5,), 0), ((5,), None)])
def test_a_rank_keeps_what_pytorchs_cuts_leave_in_every_order_of_the_axes(sizes, shape, tp_dim):
    whole = torch.arange(torch.Size(shape).numel()).view(shape)
    for order in itertools.islice(itertools.permutations(range(4)), 0, None, 5):
        mesh = Mesh(tuple(AXES[i] for i in order), tuple(sizes[i] for i in order))
        for rank in range(mesh.num_ranks):
            piece = piece_of(mesh, rank, shape, tp_dim)
            place = tuple(slice(o, o + s) for o, s in zip(piece.offsets, piece.sizes, strict=True))
            mine = whole[place]
            assert mine.shape == piece.sizes
            assert mine.flatten().tolist() == by_pytorch(mesh, rank, whole, tp_dim).flatten().tolist()


def test_holders_are_the_ranks_of_the_stage_in_the_order_of_the_pieces():
    mesh = Mesh.of(pp=2, dp_replicate=2, dp_shard=2, tp=2)
    in_stage_1 = holders_of_pieces(mesh, (6, 4), 1, stages=(1,))
    assert {str(piece): ranks for piece, ranks in in_stage_1.items()} == {
        "rows 0-2, columns 0-1": (8, 12),
        "rows 0-2, columns 2-3": (9, 13),
        "rows 3-5, columns 0-1": (10, 14),
        "rows 3-5, columns 2-3": (11, 15),
    }
    assert list(in_stage_1) == sorted(in_stage_1)
    copied = holders_of_pieces(mesh, (4,), None, stages=(0, 1))
    assert copied == {
        Piece((0,), (2,)): (0, 1, 4, 5, 8, 9, 12, 13),
        Piece((2,), (2,)): (2, 3, 6, 7, 10, 11, 14, 15),
    }


def test_a_rank_without_rows_holds_nothing_and_no_piece_of_it_is_told():
    mesh = Mesh.of(dp_shard=4)
    assert piece_of(mesh, 3, (9, 2), None) == Piece((9, 0), (0, 2))
    assert str(piece_of(mesh, 3, (9, 2), None)) == "no rows, columns 0-1"
    assert list(holders_of_pieces(mesh, (9, 2), None).values()) == [(0,), (1,), (2,)]


def test_every_number_is_held_once_for_each_copy():
    mesh = Mesh.of(tp=3, dp_shard=2, dp_replicate=2)
    pieces = holders_of_pieces(mesh, (7, 8), 1)
    assert sum(piece.numel for piece in pieces) == 56
    for row, column in itertools.product(range(7), range(8)):
        holding = [ranks for piece, ranks in pieces.items() if piece.holds(row, column)]
        assert [len(ranks) for ranks in holding] == [2]


@pytest.mark.parametrize(
    ("shape", "tp_dim", "said"),
    [
        ((), None, r"shape \(\) has no rows to deal out; the nearest that works is shape \(1,\)"),
        ((4, 2), 2, r"tp_dim=2 is no dim of shape \(4, 2\): they are 0 to 1, .* The nearest is 1"),
        ((4, 2), -1, "The nearest is 0"),
        ((4, -2), 0, r"dim 1 of \(4, -2\)"),
    ],
)
def test_what_cannot_be_cut_gets_a_sentence(shape, tp_dim, said):
    with pytest.raises(ValueError, match=said):
        piece_of(Mesh.of(tp=2), 0, shape, tp_dim)
    with pytest.raises(ValueError, match=r"rank=2 is not in a mesh of 2 ranks"):
        piece_of(Mesh.of(tp=2), 2, (4, 2), 0)


def test_the_two_rules_differ_where_the_number_of_parts_does_not_divide():
    assert split_sizes(9, 4) == [3, 2, 2, 2]
    assert [rounded_up_range(9, 4, part) for part in range(4)] == [(0, 3), (3, 6), (6, 9), (9, 9)]
    assert [rounded_up_range(2, 4, part) for part in range(4)] == [(0, 1), (1, 2), (2, 2), (2, 2)]
