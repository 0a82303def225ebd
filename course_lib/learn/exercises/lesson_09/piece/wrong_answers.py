"""Usual wrong answers to 09.piece, each with what it mixes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Cut = Callable[[int, int], Sequence[int]]  # how many, among how many -> sizes


def _first_larger(total: int, parts: int) -> list[int]:
    return [total // parts + (part < total % parts) for part in range(parts)]


def _last_shorter(total: int, parts: int) -> list[int]:
    each = -(-total // parts)
    return [max(0, min(each, total - part * each)) for part in range(parts)]


def _last_larger(total: int, parts: int) -> list[int]:
    return [total // parts] * (parts - 1) + [total - total // parts * (parts - 1)]


def _one_more(total: int, parts: int) -> list[int]:
    each = total // parts + 1
    return [max(0, min(each, total - part * each)) for part in range(parts)]


def _rounded_down(total: int, parts: int) -> list[int]:
    return [max(1, total // parts)] * parts


def _down_to_none(total: int, parts: int) -> list[int]:
    """As a division by the rows of each does it, which fails where there are fewer rows than shards."""
    each = total // parts
    return [each for part in range(parts) if part < total // each]


def _place(sizes: Sequence[int], at: int) -> tuple[int, int]:
    """The place that has number ``at``, and which one of its own that is."""
    for place, size in enumerate(sizes):
        if at < size:
            return place, at
        at -= size
    return len(sizes), at


@dataclass(frozen=True, kw_only=True)
class _Wrong:
    """The right answer with one thing wrong: at which places the number is, then all ranks at those places."""

    tp_cut: Cut = _first_larger
    shard_cut: Cut = _last_shorter
    without: Sequence[str] = ()  # axes along which everything is copied
    alone: Sequence[str] = ()  # axes along which place 0 alone has it
    order: Sequence[str] = ()  # the order of axes that is taken for granted
    other_dim: bool = False  # tp cuts the other dim
    always_rows: bool = False
    shards_first: bool = False
    shards_columns: bool = False
    row_of_the_whole: bool = False
    rows_of_the_whole: bool = False
    tp_cuts_all: bool = False
    equal_stages: bool = False
    replicas_shard: bool = False

    def holders(
        self,
        mesh: Mesh,
        stage_layers: Sequence[Sequence[int]],
        layer: int,
        shape: tuple[int, int],
        tp_dim: int | None,
        row: int,
        column: int,
    ) -> list[int]:
        has = self.cut(mesh, shape, self.dim(tp_dim), [row, column])
        if self.equal_stages:
            has["pp"] = layer // -(-sum(map(len, stage_layers)) // len(stage_layers))
        else:
            has["pp"] = next(stage for stage, layers in enumerate(stage_layers) if layer in layers)
        has = {axis: at for axis, at in has.items() if axis not in self.without} | dict.fromkeys(self.alone, 0)
        if self.order:
            axes = (*self.order, *(axis for axis in mesh.axes if axis not in self.order))
            mesh = Mesh(axes, tuple(mesh.size(axis) for axis in axes))
        here = (mesh.coordinates(rank) for rank in range(mesh.num_ranks))
        return [
            rank
            for rank, places in enumerate(here)
            if all(has.get(axis, place) == place for axis, place in places.items())
        ]

    def dim(self, tp_dim: int | None) -> int | None:
        """The dim that tp is taken to cut."""
        if tp_dim is None:
            return 0 if self.tp_cuts_all else None
        return 0 if self.always_rows else 1 - tp_dim if self.other_dim else tp_dim

    def cut(self, mesh: Mesh, shape: tuple[int, int], tp_dim: int | None, at: list[int]) -> dict[str, int]:
        """The place along each axis that cuts; one beyond the last where nobody has it."""
        num_shards = mesh.size("dp_shard") * (mesh.size("dp_replicate") if self.replicas_shard else 1)
        sizes, has = list(shape), {}
        if self.shards_first:
            parts = self.shard_cut(sizes[0], num_shards)
            has["dp_shard"], at[0] = _place(parts, at[0])
            sizes[0] = [*parts, 1][has["dp_shard"]]
        if tp_dim is not None:
            parts = self.tp_cut(sizes[tp_dim], mesh.size("tp"))
            has["tp"], within = _place(parts, at[tp_dim])
            sizes[tp_dim] = sizes[tp_dim] if self.rows_of_the_whole else [*parts, 1][has["tp"]]
            at[tp_dim] = at[tp_dim] if self.row_of_the_whole else within
        if not self.shards_first:
            dim = 1 if self.shards_columns else 0
            has["dp_shard"] = _place(self.shard_cut(sizes[dim], num_shards), at[dim])[0]
        if self.replicas_shard:
            has["dp_replicate"], has["dp_shard"] = divmod(has["dp_shard"], mesh.size("dp_shard"))
        return has


def _wrong(**settings: Any) -> Callable[..., list[int]]:
    """A function, as an answer is."""
    return lambda *args: _Wrong(**settings).holders(*args)


def _rows_and_columns(*args: Any) -> list[int]:
    """Takes rows for columns throughout."""
    *head, shape, tp_dim, row, column = args
    return _wrong()(*head, shape[::-1], tp_dim, column, row)


def _zero_is_none(*args: Any) -> list[int]:
    *head, tp_dim, row, column = args
    return _wrong()(*head, tp_dim or None, row, column)


_USUAL_ORDER = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
_ROUNDED_DOWN = (
    "Your answer is right where dp_shard divides the rows. Else you round down, and no rank has the last rows: 10 "
    "among 4 are 3, 3, 3, 1, *rounded up*. In Python: `-(-num_rows // num_shards)`."
)

MISTAKES = (
    Mistake(
        "shards-first",
        "You let dp_shard cut the rows of the whole matrix, and tp what is left. The model is cut from the inside out: "
        "tp takes its slice first, and dp_shard then cuts the rows of that slice. Where tp cuts rows as well, other "
        "ranks hold the number.",
        _wrong(shards_first=True),
    ),
    Mistake(
        "row-of-the-whole",
        "The slices are right. But you look for the number's row of the *whole* matrix among the rows of a slice. A "
        "slice begins at its own row 0, so where tp cuts rows, take off the rows before it.",
        _wrong(row_of_the_whole=True),
    ),
    Mistake(
        "rows-of-the-whole",
        "You deal out to dp_shard as many rows as the whole matrix has. Where tp has cut rows, a slice has fewer.",
        _wrong(rows_of_the_whole=True),
    ),
    Mistake(
        "shards-columns",
        "You let dp_shard cut columns. It cuts rows, dim 0, always; columns are cut by tp alone, where `tp_dim` is 1.",
        _wrong(shards_columns=True),
    ),
    Mistake(
        "tp-copies",
        "In your answer every rank of a tensor group holds the number. That is so where `tp_dim` is None; else tp has "
        "cut that dim, and one of them has it.",
        _wrong(without=("tp",)),
    ),
    Mistake(
        "zero-is-false",
        "Where `tp_dim` is 0, your answer is as if it were None. To Python 0 is false: `if tp_dim is not None` asks "
        "whether tp cuts.",
        _zero_is_none,
    ),
    Mistake(
        "tp-always-cuts",
        "Where `tp_dim` is None, tp does not cut: norms and positions are the same on all ranks of a tensor group. You "
        "cut their rows.",
        _wrong(tp_cuts_all=True),
    ),
    Mistake(
        "always-rows",
        "You let tp cut rows, whatever `tp_dim` says. Where it is 1, tp cuts columns.",
        _wrong(always_rows=True),
    ),
    Mistake(
        "other-dim",
        "You let tp cut columns where `tp_dim` is 0, and rows where it is 1. Dim 0 are the rows, dim 1 the columns.",
        _wrong(other_dim=True),
    ),
    Mistake(
        "rows-and-columns",
        "Rows and columns have changed places: `shape` is (rows, columns), dim 0 are the rows, and dp_shard cuts "
        "those.",
        _rows_and_columns,
    ),
    Mistake(
        "copies-forgotten",
        "Where several ranks hold the number, you name those at place 0 alone. Along dp_replicate, and along tp where "
        "`tp_dim` is None, the others hold it too.",
        lambda *args: _first_copies(*args),
    ),
    Mistake(
        "first-replica",
        "Replicas hold the same: the number is in every replica. You name the first replica's ranks alone.",
        _wrong(alone=("dp_replicate",)),
    ),
    Mistake(
        "replicas-shard",
        "You share the rows out among all data-parallel ranks, those of dp_replicate as well. Only dp_shard cuts; "
        "every replica has all of the rows.",
        _wrong(replicas_shard=True),
    ),
    Mistake(
        "every-stage",
        "A layer is on one stage of the pipeline, and its ranks alone hold it. You name ranks of stages that do not "
        "have the layer.",
        _wrong(without=("pp",)),
    ),
    Mistake(
        "equal-stages",
        "You work out the stage from the layer's number, as if all stages had equally many layers, in order. "
        "`stage_layers` says which stage has which layers.",
        _wrong(equal_stages=True),
    ),
    Mistake(
        "not-sharded",
        "In your answer every rank along dp_shard holds the number. dp_shard shares out the rows of what tp has left.",
        _wrong(without=("dp_shard",)),
    ),
    Mistake(
        "other-axes",
        "Along every axis that is not named, such as cp, ranks hold copies. You name those at its place 0 alone.",
        _wrong(alone=("cp",)),
    ),
    Mistake(
        "usual-order",
        "Your answer is right where the axes come in the usual order. A mesh may have them in any: ask "
        "`mesh.coordinates(rank)` where a rank stands, or `mesh.rank_at(...)` which rank is at a place.",
        _wrong(order=_USUAL_ORDER),
    ),
    Mistake(
        "tp-last-shorter",
        "Your answer is right where tp divides the dim. Else the first slices have one more: 10 among 4 are 3, 3, 2, "
        "2, as `split_sizes` says. You have cut them like rows of shards, 3, 3, 3, 1.",
        _wrong(tp_cut=_last_shorter),
    ),
    Mistake(
        "tp-last-larger",
        "Your answer is right where tp divides the dim. Else the first slices have one more: 10 among 4 are 3, 3, 2, "
        "2, as `split_sizes` says. In your answer the last slice gets all that is left over.",
        _wrong(tp_cut=_last_larger),
    ),
    Mistake(
        "shards-first-larger",
        "Your answer is right where dp_shard divides the rows. Else every shard gets equally many, rounded up, and "
        "the last ones fewer or none: 10 among 4 are 3, 3, 3, 1. You have cut them as tp cuts, 3, 3, 2, 2.",
        _wrong(shard_cut=_first_larger),
    ),
    Mistake(
        "one-row-more",
        "Your answer is right where dp_shard does not divide the rows. Where it does, your shards have one row more "
        "than their share: 4 rows between 2 are 2 and 2. Rounded up is `-(-num_rows // num_shards)`, not `num_rows // "
        "num_shards + 1`.",
        _wrong(shard_cut=_one_more),
    ),
    Mistake("rounded-down", _ROUNDED_DOWN, _wrong(shard_cut=_rounded_down)),
    Mistake(
        "rounded-down-to-none",
        f"{_ROUNDED_DOWN} With fewer rows than shards that is 0 rows for each, by which you divide.",
        _wrong(shard_cut=_down_to_none),
    ),
    Mistake(
        "shards-last-larger",
        "Your answer is right where dp_shard divides the rows. Else every shard gets equally many, rounded *up*, and "
        "the last ones fewer or none: 10 among 4 are 3, 3, 3, 1. You round down, and the last shard gets all that is "
        "left over.",
        _wrong(shard_cut=_last_larger),
    ),
)


def _first_copies(*args: Any) -> list[int]:
    alone = ("dp_replicate", "cp") if args[4] is not None else ("dp_replicate", "cp", "tp")
    return _wrong(alone=alone)(*args)
