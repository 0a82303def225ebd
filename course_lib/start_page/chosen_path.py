"""The path that a learner has chosen, kept with the progress: one of docs/paths.md, or of the first page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_lib.base.chosen_name import chosen_name
from course_lib.learn.records.store import record
from course_lib.lessons.info import LessonInfo
from course_lib.lessons.ways import MORE_PATHS, PATHS, Way

__all__ = ["EVERYTHING", "choose_path", "chosen_path", "parts_of", "path_named"]

EVERYTHING = PATHS[-1]  # of somebody who has chosen none


def path_named(words: str) -> Way:
    """The path of this name, or the one that alone has these words. Raises ``ValueError`` with the nearest."""
    paths = {path.time: path for path in (*MORE_PATHS, *PATHS)}
    return paths[chosen_name(words, [*paths], what="path")]


def choose_path(words: str) -> Way:
    """Keep a path with the progress, and return it. Raises ``ValueError`` for one that there is not."""
    path = path_named(words)
    record("path", path.time)
    return path


def chosen_path(events: Iterable[Mapping[str, Any]]) -> Way:
    """The path that was chosen last; everything where none was, or one that this course no longer has."""
    chosen = EVERYTHING
    for event in events:
        if event["event"] == "path":
            try:
                chosen = path_named(str(event["name"]))
            except ValueError:
                chosen = EVERYTHING
    return chosen


def parts_of(path: Way, infos: Sequence[LessonInfo]) -> list[LessonInfo]:
    """The parts of a path, in its order; those that this copy of the course has."""
    by_label = {info.label or info.stem: info for info in infos}
    return [by_label[label] for label in path.parts if label in by_label] or [info for info in infos if info.label]
