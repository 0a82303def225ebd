"""A lesson as the rules see it: its source and the two notebooks built from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.authoring.notebooks.writing.build import Paths
from course_lib.lessons.source import Cell, Source, read_source

__all__ = ["Lesson", "Rule", "load_lesson"]


@dataclass(frozen=True)
class Lesson:
    """Source and notebooks of one lesson, and where they lie."""

    paths: Paths
    source: Source
    learner: NotebookNode
    solution: NotebookNode

    def at(self, cell: Cell, line_in_cell: int = 1) -> str:
        """``00_start_here.py:57``: a line of a cell, in the source."""
        return self.source.where(cell, line_in_cell)


Rule = Callable[[Lesson], list[str]]
"""A rule returns a sentence for each place that breaks it: where, what, and what to do."""


def load_lesson(path: Path) -> Lesson:
    """Read the lesson whose source is ``path``; both notebooks must have been built."""
    paths = Paths.of(path)
    built = [nbformat.read(notebook, as_version=4) for notebook in (paths.learner, paths.solution)]
    return Lesson(paths, read_source(path), built[0], built[1])
