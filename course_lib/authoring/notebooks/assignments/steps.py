"""Two steps of nbgrader's that the course replaces. Only nbgrader imports this file, by the settings of the folder."""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import NbGraderPreprocessor, OverwriteCells

from course_lib.lessons.regions import learner_text

__all__ = ["CourseStubs", "RestoredCells"]


class CourseStubs(NbGraderPreprocessor):
    """When an assignment is made: each region of a code cell replaced by its stub, as in the learner's notebooks.

    nbgrader's ``ClearSolutions`` knows one stub for all, and ``check`` tells "not attempted" from "wrong" by the stub.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if cell.cell_type == "code":
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "no id")
            cell.source = learner_text(cell.source, lambda line: f"cell {cell_index + 1} ({name}), line {line}")
        return cell, resources


class RestoredCells(OverwriteCells):
    """Before work is marked: locked cells as they were handed out, also where they were deleted.

    A cell that a learner has copied, or brought from elsewhere, has no id by then. nbgrader 0.9.6 stumbles over it
    (``KeyError: 'grade_id'``) and marks nothing of the notebook; here it becomes a plain cell.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if not cell.metadata.get("nbgrader", {}).get("grade_id"):
            cell.metadata.pop("nbgrader", None)
        return cell, resources
