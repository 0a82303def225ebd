"""The page of one lesson part: the text and code of its source, the outputs of its solved notebook, answers folded."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.authoring.site.folds import SOLUTION, Fold, folds
from course_lib.authoring.site.links import LinkTargets
from course_lib.lessons.glossary import without_marks
from course_lib.lessons.info import LessonError
from course_lib.lessons.regions import learner_text, solution_text
from course_lib.lessons.source import Cell, Source

__all__ = ["lesson_page"]


def lesson_page(source: Source, solved: Path, places: LinkTargets) -> NotebookNode:
    """A notebook for Sphinx. ``solved`` is the executed one; LessonError where it is not that of the source."""
    outputs = _outputs(source, solved)
    origin = f"notebooks/{source.info.stem}.ipynb"
    page = nbformat.v4.new_notebook(metadata={"language_info": {"name": "python"}})
    page.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    folded = folds(source.cells)
    for index, cell in enumerate(source.cells):
        if cell.is_code:
            page.cells += _code(source, cell, outputs[cell.id], folded.get(cell.id))
        else:
            text = places.moved(without_marks(cell.text), origin, places.pages[origin])
            text += "\n\n" + _about(source) if index == 0 else ""
            page.cells.append(nbformat.v4.new_markdown_cell(text, id=cell.id))
    return page


def _about(source: Source) -> str:
    name = f"{source.info.stem}.ipynb"
    link = f'<a href="../files/{name}" download>{name}</a>'
    return (
        f"*A page for reading: the code and what came out when it was run once. Answers are folded; guess before "
        f"you open them. To run it yourself, open {link} in [your copy of the course](../index.md#start). "
        "A word that you do not know? The [glossary](../glossary.md) has it.*"
    )


def _outputs(source: Source, solved: Path) -> dict[str, list[NotebookNode]]:
    stale = f"{solved.name} in notebooks/solutions is not what its source says; run `course build {source.info.label}`"
    if not solved.exists():
        raise LessonError(f"there is no {solved.name} in notebooks/solutions; run `course build`")
    built = nbformat.read(solved, as_version=4)
    texts = {cell.id: cell.source for cell in built.cells if cell.cell_type == "code"}
    if texts != {cell.id: _solved_text(source, cell) for cell in source.cells if cell.is_code}:
        raise LessonError(stale)
    return {cell.id: cell.outputs for cell in built.cells if cell.cell_type == "code"}


def _solved_text(source: Source, cell: Cell) -> str:
    return solution_text(cell.text, lambda line: source.where(cell, line))


def _code(source: Source, cell: Cell, outputs: list[NotebookNode], fold: Fold | None) -> list[NotebookNode]:
    """One cell, or two where the solution stands folded below what a learner gets."""
    made = nbformat.v4.new_code_cell(_solved_text(source, cell), id=cell.id, outputs=outputs)
    if fold is not None and (outputs or fold.tag == "hide-cell"):
        made.metadata["tags"] = [fold.tag]
        made.metadata["mystnb"] = {"code_prompt_show": fold.summary, "code_prompt_hide": fold.summary}
    if told := _picture_text(outputs):
        made.metadata.setdefault("mystnb", {})["image"] = {"alt": told}
    if fold is not SOLUTION:
        return [made]
    task = learner_text(cell.text, lambda line: source.where(cell, line))
    return [nbformat.v4.new_code_cell(task, id=f"{cell.id}-task"), made]


def _picture_text(outputs: list[NotebookNode]) -> str:
    """What a picture shows, in words: the text that it carries for those who cannot see it."""
    for output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            return " ".join(data.get("text/plain", "").split())
    return ""
