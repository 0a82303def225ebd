"""The judge of 09.norm against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_09.wrong.norm import copied, counting, own_square

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_09.norm.cases import KINDS, MANY, mesh_of, norm_of, pieces_of

pytestmark = pytest.mark.xdist_group("exercises")


@pytest.mark.parametrize("num_ranks", [1, 4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_cut_as_it_says(kind, num_ranks):
    """The oracle takes whole gradients; pieces, each divided by the number of its copies, come to the same."""
    mesh, square = mesh_of(kind, num_ranks), 0.0
    for rank in range(num_ranks):
        for gradient, cut_by in pieces_of(kind, rank, num_ranks):
            if gradient is not None:
                square += float(gradient.double().square().sum()) / mesh.size(*copied(mesh, cut_by))
    assert mesh.num_ranks == num_ranks
    assert square**0.5 == pytest.approx(norm_of(kind, num_ranks), rel=1e-12, nan_ok=True)


def test_there_are_empty_pieces_lists_of_different_lengths_and_ranks_without_gradients():
    every = {kind: [pieces_of(kind, rank, 4) for rank in range(4)] for kind in KINDS}
    pieces = [gradient for ranks in every.values() for piece in ranks for gradient, _ in piece]
    assert any(gradient is not None and not gradient.numel() for gradient in pieces)
    assert any(len({len(piece) for piece in ranks}) > 1 for ranks in every.values())
    assert any(all(g is None for g, _ in piece) for ranks in every.values() for piece in ranks)
    assert len(every[MANY][0]) == 300


def own_part_of_a_group(me, mesh, gradients):
    """Places by the size of the axis itself, not by what lies within it: right where all axes have two places."""
    place = {axis: me.rank // mesh.size(axis) % mesh.size(axis) for axis in mesh.axes[:-1]}
    place |= {mesh.axes[-1]: me.rank % mesh.size(mesh.axes[-1])}
    return counting(lambda me, mesh, cut_by: float(not any(place[a] for a in copied(mesh, cut_by))))(
        me, mesh, gradients
    )


def halves(me, mesh, gradients):
    """Two copies wherever there are any: as on the page."""
    return counting(lambda me, mesh, cut_by: 0.5 ** len([a for a in copied(mesh, cut_by) if mesh.size(a) > 1]))(
        me, mesh, gradients
    )


def copies_by_cuts(me, mesh, gradients):
    """As many copies as ranks, as soon as no axis cuts."""
    return counting(lambda me, mesh, cut_by: 1.0 if cut_by else 1 / mesh.num_ranks)(me, mesh, gradients)


def by_rank_0(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    dist.broadcast(square, src=0)
    return square.sqrt()


def the_largest(me, mesh, gradients):
    norm = own_square(me, mesh, gradients).sqrt()
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
    return norm


def the_root_too_early(me, mesh, gradients):
    norm = own_square(me, mesh, gradients).sqrt()
    dist.all_reduce(norm)
    return norm.sqrt()


def by_tp_as_the_last_axis(me, mesh, gradients):
    """Neighbours in rank are taken for neighbours along tp, whatever the mesh."""
    first = me.rank % mesh.size("tp") == 0
    return counting(lambda me, mesh, cut_by: float("tp" in cut_by or first) / mesh.size("dp_replicate"))(
        me, mesh, gradients
    )


def pp_never_cuts(me, mesh, gradients):
    return counting(lambda me, mesh, cut_by: float(mesh.coordinates(me.rank).get("pp", 0) == 0))(me, mesh, gradients)


def keeps_the_first(me, mesh, gradients, seen=[]):  # noqa: B006 - the mistake itself
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)
    seen.append(square.sqrt())
    return seen[0]


def as_a_number(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)
    return square.sqrt().item()


def with_one_dim(me, mesh, gradients):
    square = own_square(me, mesh, gradients).reshape(1)
    dist.all_reduce(square)
    return square.sqrt()


def without_return(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    dist.all_reduce(square)


def stops_at_none(me, mesh, gradients):
    """``break`` where ``continue`` is meant."""
    there = []
    for gradient, cut_by in gradients:
        if gradient is None:
            break
        there.append((gradient, cut_by))
    square = own_square(me, mesh, there)
    dist.all_reduce(square)
    return square.sqrt()


def sent_in_bfloat16(me, mesh, gradients):
    square = own_square(me, mesh, gradients).bfloat16()
    dist.all_reduce(square)
    return square.double().sqrt()


def a_vector_of_squares(me, mesh, gradients):
    """Three hundred numbers where one would do, and as many on each rank."""
    squares = torch.zeros(300, dtype=torch.float64, device=me.device)
    for place, pair in enumerate(gradients):
        squares[place] = own_square(me, mesh, [pair])
    dist.all_reduce(squares)
    return squares.sum().sqrt()


def calls_where_it_has_some(me, mesh, gradients):
    """Only on the ranks of a stage that has the first gradient of its list."""
    square = own_square(me, mesh, gradients)
    if gradients and gradients[0][0] is not None:
        dist.all_reduce(square)
    return square.sqrt()


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (own_part_of_a_group, None, "the norm: expected"),
        (halves, None, "the norm: expected"),
        (by_tp_as_the_last_axis, None, "the norm: expected"),
        (stops_at_none, None, "replicas of slices, and a frozen weight"),
        (as_a_number, "in-another-form", "it comes as a float"),
        (a_vector_of_squares, "sends-much", "this rank sent"),
        (calls_where_it_has_some, "returns-early", "no gradient at all on the first stage"),
        pytest.param(copies_by_cuts, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(by_rank_0, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(the_largest, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(the_root_too_early, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(pp_never_cuts, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(keeps_the_first, None, "the norm: expected", marks=pytest.mark.long),
        pytest.param(with_one_dim, "in-another-form", "shape (1,)", marks=pytest.mark.long),
        pytest.param(without_return, None, "expected a norm", marks=pytest.mark.long),
        pytest.param(sent_in_bfloat16, None, "the norm: expected", marks=pytest.mark.long),
    ],
)
def test_wrong_norms_are_turned_away(answer, mistake, words):
    seen = judged(exercises.exercise("09.norm"), answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.message} {seen.evidence}", seen


def takes_what_all_reduce_returns(me, mesh, gradients):
    square = own_square(me, mesh, gradients)
    square = dist.all_reduce(square)
    return square.sqrt()


def test_an_error_about_another_none_is_not_told_as_one_about_gradients():
    """``all_reduce`` returns None: in the first case, where every gradient is there."""
    seen = judged(exercises.exercise("09.norm"), takes_what_all_reduce_returns)
    assert (seen.status, seen.mistake) == ("raised", None), seen
    assert "'NoneType' object has no attribute 'sqrt'" in f"{seen.message} {seen.evidence}"
