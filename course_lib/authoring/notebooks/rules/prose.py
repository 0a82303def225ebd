"""Rules over a lesson's text: alt text, pictures above widgets, links that lead somewhere, plain words."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from course_lib.authoring.notebooks.rules.code import parse
from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.lessons.info import source_files
from course_lib.lessons.source import Cell

__all__ = [
    "colours_are_not_named",
    "images_have_alt_text",
    "links_resolve",
    "parts_lead_to_each_other",
    "widgets_have_pictures",
    "words_are_plain",
]

MIN_ALT_WORDS = 3

_FENCE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]+)[^)]*\)")
_IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_LINK = re.compile(r"(?:\]\(|(?:src|href)=\")(?P<target>[^)\"\s]+)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)\s*$", re.MULTILINE)
_SECTION = re.compile(r"^#{1,2} ", re.MULTILINE)
_WORDS = re.compile(r"\bsimply\b", re.IGNORECASE)
_TURNED = re.compile(r"\b(?:white|black|yellow)\b", re.IGNORECASE)
_WIDGET_HOMES = ("ipywidgets", "course_lib.widgets")
_FORMS = {"ask", "problems", "quiz"}


def images_have_alt_text(lesson: Lesson) -> list[str]:
    """Every image says in three words or more what it shows."""
    found = []
    for cell, text in _markdown(lesson):
        alts = [match["alt"] for match in _IMAGE.finditer(text)]
        alts += [(re.search(r"\balt=\"([^\"]*)\"", tag) or ["", ""])[1] for tag in _IMG.findall(text)]
        for alt in alts:
            if len(alt.split()) < MIN_ALT_WORDS:
                found.append(f"{lesson.at(cell)}: an image has the alt text {alt!r}; say what it shows")
    return found


def words_are_plain(lesson: Lesson) -> list[str]:
    """The word "simply" helps nobody for whom it is not simple."""
    return [
        f"{lesson.at(cell, text.count(chr(10), 0, match.start()) + 1)}: leave out the word {match[0]!r}"
        for cell, text in _markdown(lesson)
        for match in _WORDS.finditer(text)
    ]


def colours_are_not_named(lesson: Lesson) -> list[str]:
    """A dark theme turns white, black and yellow round: what a picture shows is called by place, letter or hatch."""
    return [
        f"{lesson.at(cell, cell.text.count(chr(10), 0, match.start()) + 1)}: {match[0]!r} is another colour in a dark "
        "theme; name the place, the letter or the hatch"
        for cell in lesson.source.cells
        for match in _TURNED.finditer(cell.text)
    ]


def links_resolve(lesson: Lesson) -> list[str]:
    """Every relative link of both notebooks leads to a file, and to a heading where it names one."""
    found = []
    for path, notebook in ((lesson.paths.learner, lesson.learner), (lesson.paths.solution, lesson.solution)):
        for cell, built in zip(lesson.source.cells, notebook.cells, strict=True):
            if cell.is_code:
                continue
            for match in _LINK.finditer(_FENCE.sub("", built.source)):
                sentence = _broken(match["target"], path)
                if sentence:
                    found.append(f"{lesson.at(cell)}: in {path.parent.name}/{path.name}, {sentence}")
    return found


def parts_lead_to_each_other(lesson: Lesson) -> list[str]:
    """The first cell of a lesson's part links the other parts, so that a learner sees where they stand."""
    source, number = lesson.paths.source, lesson.source.info.number
    others = [path for path in source_files(source.parents[2], number) if path != source] if number else []
    first = lesson.source.cells[0]
    linked = {match["target"].partition("#")[0] for match in _LINK.finditer(first.text)}
    return [
        f"{lesson.at(first)}: the first cell of a part links the other parts, and {path.stem}.ipynb is missing"
        for path in others
        if f"{path.stem}.ipynb" not in linked
    ]


def widgets_have_pictures(lesson: Lesson) -> list[str]:
    """Above each explorer, in its own section, stands a picture: where nobody runs it, no widget shows.

    A question and a quiz need none: their text shows without a front end.
    """
    found, picture = [], False
    widgets = _widget_names(lesson)
    for cell, built in zip(lesson.source.cells, lesson.solution.cells, strict=True):
        if not cell.is_code:
            text = _FENCE.sub("", cell.text)
            picture = bool(_IMAGE.search(text)) or (picture and not _SECTION.search(text))
        elif picture or _calls_one_of(cell, _FORMS):
            continue
        elif _shows_widget(built) or _calls_one_of(cell, widgets):
            found.append(f"{lesson.at(cell)}: a widget has no picture above it in its section")
    return found


def _markdown(lesson: Lesson) -> Iterator[tuple[Cell, str]]:
    """Markdown cells with their text, code in them blanked (newlines kept)."""
    for cell in lesson.source.cells:
        if not cell.is_code:
            yield cell, _FENCE.sub(lambda match: "\n" * match[0].count("\n"), cell.text)


def _broken(target: str, notebook: Path) -> str:
    if re.match(r"^[a-z][a-z0-9+.-]*:", target):
        return "" if re.match(r"^(https?|mailto):", target) else f"{target} is no link that works for others"
    if target.startswith("/"):
        return f"{target} is an absolute path; write it relative to the notebook"
    name, _, heading = target.partition("#")
    file = (notebook.parent / name).resolve() if name else notebook
    if not file.exists():
        return f"{target} leads nowhere"
    if heading and file.suffix in (".ipynb", ".md") and heading not in _headings(file):
        return f"{target}: {file.name} has no heading {heading!r}"
    return ""


def _headings(file: Path) -> set[str]:
    """The ids of a page's headings, as JupyterLab and as GitHub make them."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    headings = [match["text"] for match in _HEADING.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
    jupyterlab = {heading.replace(" ", "-") for heading in headings}
    return jupyterlab | {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def _shows_widget(built: NotebookNode) -> bool:
    return any(output.get("metadata", {}).get("course", {}).get("widget") for output in built.outputs)


def _widget_names(lesson: Lesson) -> set[str]:
    names: set[str] = set()
    for cell in lesson.source.cells:
        for node in ast.walk(parse(cell)) if cell.is_code else ():
            if isinstance(node, ast.ImportFrom) and node.module in _WIDGET_HOMES:
                names |= {alias.asname or alias.name for alias in node.names}
    return names


def _calls_one_of(cell: Cell, names: set[str]) -> bool:
    calls = [node.func for node in ast.walk(parse(cell)) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Name) and call.id in names for call in calls)
