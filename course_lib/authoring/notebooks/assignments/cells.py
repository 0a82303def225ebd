"""A lesson's source becomes the notebook that nbgrader calls the instructor's: solved, with points on its checks.

* A cell with ``check("00.share", my_share)`` is a locked test, for one point. Around its own line stand two regions of
  hidden tests, which nbgrader takes out of the learner's copy and puts back before it marks.
* A cell whose region binds a name (a function, a class, a value) is a solution cell: the learner's, not deletable.
* The one cell of a build has several checks below it, a step each: a point for every step that passes.
* All else is as it is in the course: what asks for a prediction or a bet costs and gives nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode

from course_lib.learn.checks.reference import answer_names
from course_lib.lessons.glossary import without_marks
from course_lib.lessons.info import LessonError
from course_lib.lessons.regions import find_regions, has_region, solution_text
from course_lib.lessons.source import Cell, Source

__all__ = ["BEGIN_HIDDEN", "END_HIDDEN", "assignment_notebook", "checks_in", "content_hash", "pictures_in"]

SCHEMA_VERSION = 3  # of nbgrader's cell metadata, since nbgrader 0.6
POINTS = 1  # of each check, all or nothing: a check knows no half
BEGIN_HIDDEN, END_HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"

_PICTURE = re.compile(r"(?<=\]\()\.\./(?P<path>assets/[^)\s]+)")
_LINK = re.compile(r"(?<!!)\[(?P<words>[^]]+)\]\((?P<target>[^)\s]+)\)")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|/)")


@dataclass(frozen=True)
class _Part:
    """A cell, or the half of one: its text as the source has it, and what nbgrader is told of it."""

    cell: Cell
    text: str
    nbgrader: dict[str, Any] | None = None


def assignment_notebook(source: Source) -> NotebookNode:
    """The notebook of a lesson for nbgrader's folder ``source``; a pure function of the lesson's own source.

    Raises LessonError where a check stands in the region of its own answer.
    """
    notebook = nbformat.v4.new_notebook()
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    taken: set[str] = set()
    for cell in source.cells:
        for number, part in enumerate(_parts(source, cell)):
            make = nbformat.v4.new_code_cell if cell.is_code else nbformat.v4.new_markdown_cell
            built = make(part.text, id=cell.id if number == 0 else f"{cell.id}-{number + 1}")
            if part.nbgrader is not None:
                part.nbgrader["grade_id"] = _unique(part.nbgrader["grade_id"], taken)
                built.metadata["nbgrader"] = part.nbgrader
            if cell.tags:
                built.metadata["tags"] = list(cell.tags)
            notebook.cells.append(built)
    return notebook


def checks_in(text: str) -> list[str]:
    """The names of the exercises that a cell checks, in order."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a magic
        return []
    return [
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "check"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]


def pictures_in(notebook: NotebookNode) -> list[str]:
    """The files below ``assets`` that the text of an assignment shows, once each."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return sorted(set(re.findall(r"(?<=\]\()assets/[^)\s]+", text)))


def _parts(source: Source, cell: Cell) -> Iterator[_Part]:
    if not cell.is_code:
        yield _Part(cell, _alone(without_marks(cell.text)))
        return
    answer, test = _divided(source, cell)
    if answer:
        yield _Part(cell, answer, _about_answer(source, cell, answer))
    if test:
        (name, *_) = checks_in(test)
        grade_id = f"check_{_word(name)}"
        yield _Part(cell, _with_hidden_tests(test, checks_in(test)), _about(grade_id, grade=True))


def _divided(source: Source, cell: Cell) -> tuple[str, str]:
    """What of a cell is the learner's or plain, and what checks it; one of the two is mostly empty."""

    def where(line: int) -> str:
        return source.where(cell, line)

    if not checks_in(solution_text(cell.text, where)):
        return cell.text, ""
    if not has_region(cell.text):
        return "", cell.text
    lines, last = cell.text.splitlines(), find_regions(cell.text, where)[-1].end
    answer, test = "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :]).strip("\n")
    if checks_in(solution_text(answer, where)):
        raise LessonError(
            f"{where(1)}: a check stands above the end of a solution in its cell; for points it needs a place below"
        )
    return answer, test


def _about_answer(source: Source, cell: Cell, text: str) -> dict[str, Any] | None:
    """The metadata of a solution cell; None for a cell that is no exercise, such as a question's."""
    if not has_region(text):
        return None
    try:
        tree = ast.parse(solution_text(text, lambda line: source.where(cell, line)))
    except SyntaxError:  # a magic: nothing that could be handed to a check
        return None
    names = list(filter(None, map(_name_bound, tree.body)))
    handed_in = _names_handed_in(source)
    bound = next((name for name in names if name in handed_in), names[0] if names else None)
    return None if bound is None else _about(f"answer_{_word(bound)}", solution=True)


def _names_handed_in(source: Source) -> set[str]:
    """The names that the lesson's checks are given."""
    texts = (solution_text(cell.text, str) for cell in source.cells if cell.is_code and "check(" in cell.text)
    return {answer for text in texts if checks_in(text) for answer in answer_names(text).values()}


def _name_bound(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _about(grade_id: str, *, grade: bool = False, solution: bool = False) -> dict[str, Any]:
    about: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "grade": grade,
        "grade_id": grade_id,
        "locked": grade,
        "solution": solution,
        "task": False,
    }
    return about | ({"points": POINTS} if grade else {})


def _with_hidden_tests(text: str, names: list[str]) -> str:
    """The cell of a check between two hidden regions.

    The first gives ``check`` its meaning again, whatever the notebook has made of that name; the second raises where a
    check has not passed. Without them the cell is the learner's, and never raises.
    """
    opening = [BEGIN_HIDDEN, "from course_lib.learn.checks.grading import check, need_passed", END_HIDDEN]
    closing = [BEGIN_HIDDEN, *(f'need_passed("{name}")' for name in names), END_HIDDEN]
    return "\n".join([*opening, text, *closing])


def _alone(text: str) -> str:
    """The text of a notebook that is handed out without the others: pictures beside it, no link to a missing file."""

    def kept(match: re.Match[str]) -> str:
        target = posixpath.normpath(match["target"])
        return match[0] if _ELSEWHERE.match(target) or target.startswith("assets/") else match["words"]

    fenced = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    return "".join(
        part if index % 2 else _LINK.sub(kept, _PICTURE.sub(r"\g<path>", part)) for index, part in enumerate(fenced)
    )


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _unique(grade_id: str, taken: set[str]) -> str:
    copy, found = 1, grade_id
    while found in taken:
        copy += 1
        found = f"{grade_id}_{copy}"
    taken.add(found)
    return found


def content_hash(notebook: NotebookNode) -> str:
    """A hash of what a person may change: text, kind and nbgrader's metadata of each cell, in order."""
    content = [[cell.cell_type, cell.source, cell.metadata.get("nbgrader")] for cell in notebook.cells]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
