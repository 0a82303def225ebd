"""A stand-in for jupytext where it is missing: it reads the percent format, as the course's lessons use it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MARKER = re.compile(r"^# %%(?:\s+(?P<kind>\[markdown\]))?(?:\s+tags=(?P<tags>\[.*\]))?\s*$")
_MAGIC = re.compile(r"^# (?=%%?[a-z])")


@dataclass
class Cell:
    """A cell as nbformat has it, as far as the course asks."""

    cell_type: str
    source: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Notebook:
    """The cells of a source."""

    cells: list[Cell]


def read(path: str | Path, fmt: str = "py:percent") -> Notebook:
    """The notebook that a file holds."""
    return reads(Path(path).read_text(encoding="utf-8"), fmt=fmt)


def reads(text: str, fmt: str = "py:percent") -> Notebook:
    """The notebook that a text holds. Raises ValueError for another format than the lessons'."""
    if fmt != "py:percent":
        raise ValueError(f"fmt is {fmt!r}; this stand-in for jupytext reads 'py:percent' alone")
    lines = text.splitlines()
    marks = [(index, mark) for index, line in enumerate(lines) if (mark := _MARKER.match(line))]
    ends = [index for index, _ in marks[1:]] + [len(lines)]
    return Notebook([_cell(mark, lines[start + 1 : end]) for (start, mark), end in zip(marks, ends, strict=True)])


def _cell(mark: re.Match[str], lines: list[str]) -> Cell:
    tags = {"tags": ast.literal_eval(mark["tags"])} if mark["tags"] else {}
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if mark["kind"]:
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        return Cell("markdown", "\n".join(lines), tags)
    return Cell("code", "\n".join(_MAGIC.sub("", line) for line in lines), tags)
