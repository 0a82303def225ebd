"""09.file: which rank's file fits a rank of another mesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces

__all__ = ["FILE"]

_PAIRS = (  # the mesh that saved, the mesh that loads: the same axes in another order
    (Mesh.of(dp_shard=2, tp=2), Mesh.of(tp=2, dp_shard=2)),
    (Mesh.of(dp_shard=2, tp=2), Mesh.of(dp_shard=2, tp=2)),
    (Mesh.of(dp_shard=2, tp=4), Mesh.of(tp=4, dp_shard=2)),
    (Mesh.of(pp=2, dp_shard=3, tp=2), Mesh.of(tp=2, pp=2, dp_shard=3)),
    (Mesh.of(tp=2, pp=3), Mesh.of(pp=3, dp_shard=1, tp=2)),
    (Mesh.of(dp_shard=4), Mesh.of(dp_shard=4)),
)


def _files(answer: Any, old: Mesh, new: Mesh) -> Any:
    traces = Traces()
    found = [answer(rank, old, new) for rank in range(new.num_ranks)]
    if seeded := traces.found(None):
        return f"your code {seeded}"
    return ... if any(one is ... for one in found) else found


def _right(old: Mesh, new: Mesh) -> list[dict[str, int]]:
    """For each rank of the new mesh its place along the axes that have more than one."""
    return [_place(new, rank) for rank in range(new.num_ranks)]


def _place(mesh: Mesh, rank: int) -> dict[str, int]:
    return {axis: at for axis, at in sorted(mesh.coordinates(rank).items()) if mesh.size(axis) > 1}


def _compare_on(old: Mesh, right: list[dict[str, int]], got: Any) -> str:
    for rank, (place, number) in enumerate(zip(right, got, strict=True)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            return f"the number of a file is a whole number, and rank {rank} has {short(number)}"
        if not 0 <= number < old.num_ranks:
            return f"rank {rank} reads file {number}, and the files are 0 to {old.num_ranks - 1}"
        wrote = _place(old, int(number))
        if wrote != place:
            return f"rank {rank} of the new mesh is at {place}, and reads file {number}, which was written at {wrote}"
    return ""


def _compare(expected: Any, got: Any) -> str:
    """In the place of what is right may stand what a usual wrong answer gives."""
    if not isinstance(expected, tuple):
        return "" if expected == got else "other files"
    old, right = expected
    return _compare_on(old, right, got) if isinstance(got, list) else str(got)


# -- usual wrong answers ----------------------------------------------------------------------------------------------


def _as_it_was(rank: int, old: Mesh, new: Mesh) -> int:
    return rank


def _other_way_round(rank: int, old: Mesh, new: Mesh) -> int:
    return new.rank_at(**old.coordinates(rank))


def _always_turned(rank: int, old: Mesh, new: Mesh) -> int:
    """The numbers of a table, read by columns."""
    rows = old.shape[0]
    return rank % rows * (old.num_ranks // rows) + rank // rows


FILE = Exercise(
    name="09.file",
    title="The file of a place",
    judge=by_cases(
        [Case(f"files of {old}, loaded on {new}", (old, new), (old, _right(old, new))) for old, new in _PAIRS],
        call=_files,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "as-it-was",
            "Each rank reads the file with its own number. That fits where both meshes are the same. Where axes stand "
            "in another order, the same number is another place.",
            _as_it_was,
        ),
        Mistake(
            "other-way-round",
            "You look for the place that the *old* mesh gives this number, on the new mesh. With two by two ranks that "
            "comes to the same. A rank that loads stands on the new mesh, and the file was written on the old one.",
            _other_way_round,
        ),
        Mistake(
            "always-turned",
            "You turn the table of two axes around, also where the meshes are the same, and where there are three "
            "axes. The meshes say which rank stands where.",
            _always_turned,
        ),
        Mistake(
            "a-place",
            "A place came back. The file has the number of the rank that stood there.",
            recognise=lambda evidence: all(
                isinstance(o.got, list) and isinstance(o.got[0], dict) for o in evidence.outcomes
            ),
        ),
    ),
    hints=(
        "What decides which rows a rank holds: its number, or where it stands along dp_shard and tp?",
        "Two steps. Where does this rank stand on the mesh that loads? And which rank stood at that place on the mesh "
        "that saved?",
        "`old.rank_at(**new.coordinates(rank))`.",
    ),
    passed="Every rank reads the file that was written at its place, whatever the order of the axes.",
)
