"""09.place: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_09.place.wrong_answers import Place, _Right


class ByTheLibrary(_Right):
    """Right, by the course's own mesh."""

    def rank_of(self, place: Place) -> int:
        return Mesh.of(**self.sizes).rank_at(**place)

    def groups_along(self, axis: str) -> Any:
        return Mesh.of(**self.sizes).groups(axis)


EXERCISE = "09.place"
FORBIDDEN = ByTheLibrary
