"""A source becomes two notebooks without a run: the learner's copy, and the solved one still without outputs.

Both are a pure function of the source, so a build is checked by building again and comparing.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable

import nbformat
from nbformat import NotebookNode

from course_lib.lessons.glossary import without_marks
from course_lib.lessons.regions import learner_text, solution_text
from course_lib.lessons.source import Cell, Source

__all__ = [
    "BUILDER",
    "code_hash",
    "learner_notebook",
    "rebase_links",
    "relinked",
    "solution_shell",
    "to_text",
    "without_outputs",
]

_WORDS = "*A word that you do not know? The [glossary](glossary.md) has it, with what others call it.*"

BUILDER = 1
"""Raise by one when the same source gives another notebook; every lesson then counts as changed."""

_LINK = re.compile(r"(?P<before>\]\(|(?:src|href)=\")(?P<target>[^)\"\s]+)")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|/)")


def learner_notebook(source: Source) -> NotebookNode:
    """The notebook for doing: stubs in place of solutions, no outputs."""
    texts = [_learner_cell(source, cell) for cell in source.cells]
    texts[0] += f"\n\n{_WORDS}"
    return _notebook(source, list(zip(source.cells, texts, strict=True)))


def solution_shell(source: Source) -> NotebookNode:
    """The notebook for reading before it is executed: solved, links rebased, a note that says what it is."""
    texts = [_solution_cell(source, cell) for cell in source.cells]
    stem = source.info.stem
    texts[0] += (
        f"\n\n{rebase_links(_WORDS, 'solutions')}"
        f"\n\n*This is the solved copy, for reading. The one for doing is [{stem}.ipynb](../{stem}.ipynb).*"
    )
    notebook = _notebook(source, list(zip(source.cells, texts, strict=True)))
    notebook.metadata["course"] = {"builder": BUILDER, "code_sha256": code_hash(notebook)}
    return notebook


def code_hash(notebook: NotebookNode) -> str:
    """A hash of what the outputs depend on inside the notebook: code and tags, in order.

    Prose is left out.
    """
    code = [[cell.source, cell.metadata.get("tags", [])] for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps([BUILDER, code]).encode()).hexdigest()


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """A copy with every output and execution count removed: what a build from the source must equal."""
    bare = nbformat.from_dict(json.loads(json.dumps(notebook)))
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return bare


def to_text(notebook: NotebookNode) -> str:
    """The notebook as it lies on disk, byte for byte the same on every machine."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def relinked(markdown: str, address: Callable[[str], str]) -> str:
    """A text whose links and pictures lead to what ``address`` makes of their targets; code stays as it is."""

    def moved(match: re.Match[str]) -> str:
        return match["before"] + address(match["target"])

    fenced = re.split(r"(```.*?```|`[^`\n]*`)", markdown, flags=re.DOTALL)
    return "".join(part if index % 2 else _LINK.sub(moved, part) for index, part in enumerate(fenced))


def rebase_links(markdown: str, start: str) -> str:
    """Rewrite the relative links of a text that moves into the folder ``start`` below its own, e.g.

    ``solutions``.
    """

    def moved(target: str) -> str:
        if _ELSEWHERE.match(target):
            return target
        path, hash_sign, heading = target.partition("#")
        return posixpath.relpath(path, start) + hash_sign + heading

    return relinked(markdown, moved)


def _learner_cell(source: Source, cell: Cell) -> str:
    if not cell.is_code:
        return without_marks(cell.text)
    return learner_text(cell.text, lambda line: source.where(cell, line))


def _solution_cell(source: Source, cell: Cell) -> str:
    if not cell.is_code:
        return rebase_links(without_marks(cell.text), "solutions")
    return solution_text(cell.text, lambda line: source.where(cell, line))


def _notebook(source: Source, texts: list[tuple[Cell, str]]) -> NotebookNode:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell, text in texts:
        make = nbformat.v4.new_code_cell if cell.is_code else nbformat.v4.new_markdown_cell
        built = make(text, id=cell.id)
        if cell.tags:
            built.metadata["tags"] = list(cell.tags)
        notebook.cells.append(built)
    return notebook
