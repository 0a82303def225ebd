"""09.file: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.layouts.mesh import Mesh


def _place_itself(rank: int, old: Mesh, new: Mesh) -> Any:
    return new.coordinates(rank)


EXERCISE = "09.file"
EXAMPLES: dict[str, Any] = {
    "a-place": _place_itself,
}
