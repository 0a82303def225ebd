"""Within nbgrader: solution regions become the course's stubs, as in the learner's notebooks.

nbgrader's own ``ClearSolutions`` knows one stub for all, and the course's ``check`` tells "not attempted" from "wrong"
by the stub. Only nbgrader imports this file, by the settings of the folder.
"""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import NbGraderPreprocessor

from course_lib.notebooks.regions import learner_text

__all__ = ["CourseStubs"]


class CourseStubs(NbGraderPreprocessor):
    """A step of ``nbgrader generate_assignment``: each region of a code cell replaced by its stub."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if cell.cell_type == "code":
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "no id")
            cell.source = learner_text(
                cell.source, lambda line: f"cell {cell_index + 1} ({name}), line {line}"
            )
        return cell, resources
