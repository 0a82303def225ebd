"""Read a lesson's source: a list of cells, each of which knows the line where it begins.

The format is jupytext's py:percent, so an editor or jupytext itself opens the same file. A cell magic is
written as a comment (``# %%ranks -n 4``) and becomes a magic in the notebook.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import jupytext

from course_lib.lessons.info import LessonError, LessonInfo, parse_first_cell

__all__ = ["Cell", "Source", "parse_source", "read_source"]

_MARKER = re.compile(r"^# %%(\s|$)")


@dataclass(frozen=True)
class Cell:
    """One cell of a source. ``line`` is the source line (from 1) of the first line of ``text``."""

    id: str
    kind: str
    text: str
    tags: tuple[str, ...]
    line: int

    @property
    def is_code(self) -> bool:
        return self.kind == "code"


@dataclass(frozen=True)
class Source:
    """A lesson as written: its path, its label and its cells."""

    path: Path
    info: LessonInfo
    cells: tuple[Cell, ...]

    def where(self, cell: Cell, line_in_cell: int = 1) -> str:
        """``00_start_here.py:57``: a place in the source, the way editors open it."""
        return f"{self.path.name}:{cell.line + line_in_cell - 1}"


def read_source(path: str | Path) -> Source:
    """Read ``notebooks/src/NN_name.py``.

    Raises LessonError for a missing label, an empty cell or an unknown kind.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LessonError(
            f"{path.name} is no text in UTF-8: byte {error.start + 1:,} of it does not fit; a lesson is Python source"
        ) from None
    return parse_source(text, path)


def parse_source(text: str, path: Path) -> Source:
    """The same from ``text``; ``path`` gives the lesson's number and name."""
    lines = text.splitlines()
    markers = [index for index, line in enumerate(lines, start=1) if _MARKER.match(line)]
    if not markers:
        raise LessonError(f"{path.name}: there is no cell; a cell begins with '# %%' or '# %% [markdown]'")
    parsed = jupytext.reads(text, fmt="py:percent").cells
    if len(parsed) != len(markers):
        raise LessonError(f"{path.name}:1: text stands before the first '# %%'; every line belongs to a cell")
    cells: list[Cell] = []
    for marker, end, cell in zip(markers, [*markers[1:], len(lines) + 1], parsed, strict=True):
        if not cell.source.strip():
            raise LessonError(f"{path.name}:{marker}: this cell is empty")
        if cell.cell_type not in ("code", "markdown"):
            raise LessonError(f"{path.name}:{marker}: a cell is code or markdown, this one is {cell.cell_type}")
        if cell.cell_type == "markdown":
            _check_prose(path, lines[marker : end - 1], marker + 1)
        cell_id = _cell_id(path.name[:2], cell.source, {earlier.id for earlier in cells})
        cells.append(Cell(cell_id, cell.cell_type, cell.source, tuple(cell.metadata.get("tags", ())), marker + 1))
    first = cells[0]
    return Source(path, parse_first_cell(path, first.text if not first.is_code else ""), tuple(cells))


def _check_prose(path: Path, lines: list[str], first: int) -> None:
    """Code below a markdown cell without a ``# %%`` of its own would quietly become text, and never run."""
    for number, line in enumerate(lines, start=first):
        if line.strip() and not line.startswith("#"):
            raise LessonError(
                f"{path.name}:{number}: a line of a markdown cell begins with '#', and this one is {line.strip()!r}; "
                "if it is code, put a line '# %%' above it"
            )


def _cell_id(number: str, text: str, taken: set[str]) -> str:
    """An id from the content: a new cell leaves all other ids alone, and a build repeats exactly."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    copy, cell_id = 1, f"lesson-{number}-{digest}"
    while cell_id in taken:
        copy += 1
        cell_id = f"lesson-{number}-{digest}-{copy}"
    return cell_id
