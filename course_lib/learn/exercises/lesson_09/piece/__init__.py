"""09.piece: which ranks of a mesh hold a number of a matrix.

The oracle goes another way than most answers: it deals out a table in which every row and column of a matrix stands,
first along ``tp``, then along ``dp_shard``, and asks each rank whether the number is in what it got.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_09.piece import wrong_answers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["PIECE", "fault_in", "right_holders"]

Stages = Sequence[Sequence[int]]
_TWO: Stages = ((0, 1), (2, 3))  # layers of each of two stages
_ONE: Stages = ((0, 1, 2, 3),)
_CHANGED = "your function changed `stage_layers`, which others read as well"
_EIGHT = Mesh.of(pp=2, dp_shard=2, tp=2)


def right_holders(
    mesh: Mesh,
    stage_layers: Stages,
    layer: int,
    shape: tuple[int, int],
    tp_dim: int | None,
    row: int,
    column: int,
) -> list[int]:
    """All that each rank holds of the matrix, row by row, as a search for one number."""
    return [
        rank
        for rank in range(mesh.num_ranks)
        if layer in stage_layers[mesh.coordinates(rank).get("pp", 0)]
        and row in _rows_of(mesh, rank, shape, tp_dim)
        and column in _columns_of(mesh, rank, shape, tp_dim)
    ]


def _rows_of(mesh: Mesh, rank: int, shape: tuple[int, int], tp_dim: int | None) -> Sequence[int]:
    rows: Sequence[int] = range(shape[0])
    if tp_dim == 0:
        rows = _slice(mesh, rank, shape[0])
    deck = list(rows)
    for _ in range(mesh.coordinates(rank).get("dp_shard", 0)):  # each shard takes its rows off the top
        del deck[: -(-len(rows) // mesh.size("dp_shard"))]
    return deck[: -(-len(rows) // mesh.size("dp_shard"))]


def _columns_of(mesh: Mesh, rank: int, shape: tuple[int, int], tp_dim: int | None) -> Sequence[int]:
    return _slice(mesh, rank, shape[1]) if tp_dim == 1 else range(shape[1])


def _slice(mesh: Mesh, rank: int, size: int) -> Sequence[int]:
    owners = sorted(number % mesh.size("tp") for number in range(size))  # dealt like cards, then put in order
    place = mesh.coordinates(rank).get("tp", 0)
    return [number for number, owner in enumerate(owners) if owner == place]


# -- the judge --------------------------------------------------------------------------------------------------


def _case(
    mesh: Mesh, stages: Stages, layer: int, shape: tuple[int, int], tp_dim: int | None, row: int, column: int
) -> Case:
    cut = "copied by tp" if tp_dim is None else f"{('rows', 'columns')[tp_dim]} cut by tp"
    label = f"{mesh}: row {row}, column {column} of a matrix {shape}, {cut}, layer {layer} of stages "
    label += str([list(layers) for layers in stages])

    def args() -> tuple[Any, ...]:
        return mesh, [list(layers) for layers in stages], layer, shape, tp_dim, row, column

    return Case(label, args, right_holders)


_CASES = (
    _case(_EIGHT, _TWO, 3, (256, 64), 0, 100, 5),
    _case(_EIGHT, _TWO, 1, (256, 64), 0, 200, 63),
    _case(_EIGHT, _TWO, 3, (64, 256), 1, 40, 100),
    _case(_EIGHT, _TWO, 0, (64, 256), 1, 5, 130),
    _case(_EIGHT, _TWO, 2, (64, 1), None, 63, 0),
    _case(Mesh.of(pp=1, dp_shard=1, tp=1), _ONE, 2, (5, 7), 0, 4, 6),
    _case(Mesh.of(dp_replicate=2, dp_shard=2, tp=2), _ONE, 1, (256, 64), 0, 140, 60),
    _case(Mesh.of(tp=2, dp_shard=2, pp=2), _TWO, 3, (256, 64), 0, 100, 5),  # another order of axes
    _case(Mesh.of(tp=2, pp=2, dp_replicate=2), _TWO, 0, (64, 256), 1, 3, 255),
    _case(Mesh.of(pp=4, tp=2), ((0,), (1, 2), (3, 4, 5), (6,)), 3, (64, 64), 0, 33, 1),  # uneven stages
    _case(Mesh.of(pp=2, dp_shard=4), ((3, 0), (1, 2)), 3, (10, 4), None, 9, 3),  # 3, 3, 3, 1 rows
    _case(Mesh.of(dp_shard=4), _ONE, 0, (5, 4), None, 4, 0),  # 2, 2, 1, 0
    _case(Mesh.of(dp_shard=4, tp=2), _ONE, 0, (6, 4), None, 2, 0),  # 2, 2, 2, 0
    _case(Mesh.of(dp_shard=2, tp=4), _ONE, 3, (10, 8), 0, 5, 2),  # 3, 3, 2, 2 of the rows
    _case(Mesh.of(dp_shard=2, tp=4), _ONE, 3, (8, 10), 1, 5, 2),  # the same place, of another matrix
    _case(Mesh.of(dp_shard=2, tp=4), _ONE, 3, (10, 8), 0, 7, 2),
    _case(Mesh.of(dp_shard=2, tp=4), _ONE, 3, (8, 10), 1, 2, 6),
    _case(Mesh.of(dp_shard=2, tp=2), _ONE, 1, (8, 4), 0, 2, 1),  # a slice of 4 rows: 2, 2
    _case(Mesh.of(dp_shard=3, tp=2), _ONE, 1, (14, 4), 0, 9, 1),  # 7 rows of the slice: 3, 3, 1
    _case(Mesh.of(dp_shard=2, tp=4), _ONE, 2, (3, 6), 0, 2, 5),  # one rank of tp has nothing
    _case(Mesh.of(dp_shard=2, cp=2, tp=2), _ONE, 2, (12, 6), 1, 7, 2),  # an axis that copies
    _case(Mesh.of(dp_replicate=3, tp=2), _ONE, 0, (9, 9), None, 8, 8),
    _case(Mesh.of(pp=2), _TWO, 1, (4, 4), 0, 3, 3),  # neither tp nor dp_shard
)


def _call(answer: Any, *args: Any) -> Any:
    """The ranks as a list, whether they came as a tuple, an array or a generator; of NumPy's numbers, the values."""
    before = copy.deepcopy(args[1])
    ranks = answer(*args)
    if args[1] != before:
        return _CHANGED
    if hasattr(ranks, "tolist"):
        return ranks.tolist()
    ranks = list(ranks) if isinstance(ranks, tuple | range | Iterator) else ranks
    if isinstance(ranks, list):
        return [rank.item() if hasattr(rank, "item") else rank for rank in ranks]
    return ranks


def fault_in(expected: Sequence[int], got: Any) -> str:
    """What is wrong with a list of ranks, in words; empty where nothing is."""
    if got is None:
        return "nothing came back (`None`); a function gives its result with `return`"
    if isinstance(got, str) and got == _CHANGED:
        return got
    if isinstance(got, set | frozenset):
        return f"expected a list in rising order, got the set {short(got)}, which has no order"
    if not isinstance(got, list) or not all(isinstance(r, int) and not isinstance(r, bool) for r in got):
        return f"expected a list of ranks such as [0, 1], got {short(got)}"
    words = [
        f"{_listed(ranks)} {verb}"
        for ranks, verb in (
            ([rank for rank in expected if rank not in got], "missing"),
            (sorted({rank for rank in got if rank not in expected}), "too many"),
        )
        if ranks
    ]
    if words:
        return f"expected {short(list(expected))}, got {short(got)}: {', '.join(words)}"
    if len(set(got)) < len(got):
        return f"expected {short(list(expected))}, got {short(got)}: a rank is there twice"
    return "" if got == list(expected) else f"the right ranks, but not in rising order: {short(got)}"


def _listed(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} are"


PIECE = Exercise(
    name="09.piece",
    may_yield=True,
    title="Who holds this number?",
    judge=by_cases_apart(_CASES, call=_call, compare=fault_in),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Take one rank: does it hold the number? It does unless an axis has given the number to another place. Three "
        "axes cut, and for each you need a question of its own; the others copy.",
        "Go from the inside out, in the order in which the model was cut. Which part of dim `tp_dim` does this rank's "
        "place along tp get, and is the number in it? Then forget the whole matrix: what is left is a smaller one, "
        "the slice. How many rows does the slice have, which of them has the number, and which place along dp_shard "
        "gets that row?",
        "With `begin` and `size` of this rank's slice: where `tp_dim == 0`, the slice has `size` rows and the number "
        "stands in its row `row - begin`. Else it has `shape[0]` rows, and the number stands in row `row`. Each place "
        "along dp_shard gets `-(-num_rows // mesh.size('dp_shard'))` of them.",
    ),
    forbidden=(
        "course_lib.layouts.mesh_pieces.piece_of",
        "course_lib.layouts.mesh_pieces.holders_of_pieces",
        "course_lib.layouts.mesh_pieces.Piece.holds",
        "course_lib.cost.holders_of_parameter",
        "course_lib.cost.pieces_of_rank",
    ),
    passed="Your function names the right ranks in every case. Three axes cut, each what the cut before has left; "
    "all others copy.",
)
