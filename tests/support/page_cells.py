"""A page's code, run here as its learner or its solver would: the cells that a test names, in this order."""

from __future__ import annotations

import ast
from typing import Any

from own_library import Notebook

from course_lib.base.paths import project_root
from course_lib.lessons.regions import learner_text, solution_text
from course_lib.lessons.source import read_source

LAST = "_"  # the name of what a cell showed


def source_cells(stem: str) -> list[Any]:
    """The code cells of ``notebooks/src/STEM_name.py``."""
    (path,) = (project_root() / "notebooks" / "src").glob(f"{stem}_*.py")
    return [cell for cell in read_source(path).cells if cell.is_code]


def cell_with(stem: str, mark: str, *, solved: bool = True) -> str:
    """The one cell of a page that holds ``mark``, as its solver has it, or as its learner gets it."""
    (cell,) = [cell for cell in source_cells(stem) if mark in cell.text]
    text = solution_text if solved else learner_text
    return text(cell.text, lambda line: f"{stem}:{line}")


def run_cells(stem: str, *marks: str, notebook: Notebook | None = None, solved: bool = True) -> Notebook:
    """Run the cells of a page that hold these marks; what the last one showed is ``notebook["_"]``."""
    notebook = notebook or Notebook()
    for mark in marks:
        text = cell_with(stem, mark, solved=solved)
        last = ast.parse(text).body[-1]
        if isinstance(last, ast.Expr):
            lines = text.splitlines()
            lines[last.lineno - 1] = f"{LAST} = {lines[last.lineno - 1]}"
            text = "\n".join(lines)
        notebook.cell(text)
    return notebook
