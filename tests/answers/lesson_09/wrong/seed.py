"""09.seed: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.layouts.mesh import Mesh


def _as_it_was(mesh: Mesh, rank: int, seed: int) -> int:
    return seed + rank


def _one_for_all(mesh: Mesh, rank: int, seed: int) -> int:
    return seed


EXERCISE = "09.seed"
EXAMPLES: dict[str, Any] = {
    "as-it-was": _as_it_was,
    "one-for-all": _one_for_all,
}
