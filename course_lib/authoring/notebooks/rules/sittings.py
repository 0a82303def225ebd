"""A rule over sittings: none is longer than a learner can take, and its end is marked."""

from __future__ import annotations

from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.authoring.notebooks.writing.size_table import STOP, size_of

__all__ = ["LONGEST_SITTING_MIN", "sittings_are_marked"]

LONGEST_SITTING_MIN = 80  # 75 are asked; counted minutes are off by 9 on average


def sittings_are_marked(lesson: Lesson) -> list[str]:
    """Between two sittings of a part stands a good place to stop; a build has its own, between two of its steps."""
    info, counted_min = lesson.source.info, size_of(lesson.source).counted_min
    if not counted_min:
        return []
    found, first = [], lesson.at(lesson.source.cells[0])
    if len(counted_min) != info.sittings:
        found.append(
            f"{first}: its line says {info.minutes_text} minutes, {info.sittings} times one sitting, and its cells "
            f"that begin with {STOP!r} make {len(counted_min)} of it; write both alike"
        )
    if max(counted_min) > LONGEST_SITTING_MIN:
        found.append(
            f"{first}: a sitting has {max(counted_min)} minutes, counted by its words and lines; {LONGEST_SITTING_MIN} "
            f"are the most. Leave something out, or cut it by a cell that begins with {STOP!r}"
        )
    return found
