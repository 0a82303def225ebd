"""A board for a class: every result in a tree of folders, a line each; what is no result is told and left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.capstone.reports.page import fill
from course_lib.capstone.reports.result_file import FILE_NAME, ForeignResult, ResultRecord, read_record
from course_lib.forms.show import Shown, table

__all__ = ["Board", "board"]

_HEAD = ("name", "level", "seed", "points", "step", "regret", "choice", "folder")
_WIDEST = 28  # letters of a column in the text
_DEEPEST = 8  # folders within folders
_NOBODY = "(no name)"


@dataclass(frozen=True)
class BoardLine:
    """A result, and where it lies below the folder that was looked through."""

    folder: str
    record: ResultRecord

    def cells(self) -> tuple[str, ...]:
        """As texts, by the columns of the board."""
        record = self.record
        step = "–" if record.step_s is None else f"{record.step_s * 1e3:.0f} ms"
        regret = "–" if record.regret is None else f"{round(record.regret, 2) + 0.0:+.0%}"  # no -0%
        name = " ".join(record.name.split()) or _NOBODY
        points = f"{record.points:.0f}" + (" (cheat)" if record.cheats else "")
        choice = " ".join(record.mesh.split()) or "–"
        return name, str(record.level), str(record.seed), points, step, regret, choice, self.folder


@dataclass(frozen=True, repr=False)
class Board(Shown):
    """Lines by level, most points first, and what was skipped with its reason. ``html()`` is a page of its own.

    Levels are not compared: a hundred points of level 1 are less work than eighty of level 3.
    """

    lines: tuple[BoardLine, ...]
    skipped: tuple[tuple[str, str], ...]  # a file, and why
    root: str

    def __repr__(self) -> str:
        if not self.lines:
            return "\n".join([f"No result in {self.root}.", *self._told()])
        rows = [_HEAD, *(line.cells() for line in self.lines)]
        short = [[cell if len(cell) <= _WIDEST else cell[: _WIDEST - 1] + "…" for cell in row] for row in rows]
        wide = [max(len(row[place]) for row in short) for place in range(len(_HEAD))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip() for row in short]
        parted = [lines[0]]
        for level, of_level in self.by_level().items():
            parted += ["", f"level {level}", *(lines[1 + self.lines.index(line)] for line in of_level)]
        return "\n".join([*parted, *self._told()])

    def by_level(self) -> dict[int, list[BoardLine]]:
        """The lines of each level, from the first level on."""
        levels = sorted({line.record.level for line in self.lines})
        return {level: [line for line in self.lines if line.record.level == level] for level in levels}

    def _told(self) -> list[str]:
        return [f"Skipped {file}: {why}." for file, why in self.skipped]

    def _html(self) -> str:
        tables = {level: table(list(_HEAD), rows) for level, rows in self._rows().items()}
        return fill("in_a_cell.html", tables=tables, root=self.root, skipped=self._told())

    def _rows(self) -> dict[int, list[list[str]]]:
        return {level: [list(line.cells()) for line in lines] for level, lines in self.by_level().items()}

    def html(self) -> str:
        """A page that needs nothing beside it."""
        told = {"count": len(self.lines), "head": _HEAD, "levels": self._rows(), "skipped": self._told()}
        return fill("board.html", title="Capstone: a class", **told)

    def save(self, path: str | Path) -> Path:
        """Write the page. ``ValueError`` where there is a file of this name: nothing is written over."""
        path = Path(path)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self.html())
        except FileExistsError:
            raise ValueError(f"{path} exists, and the board overwrites no file; save it under another name") from None
        except FileNotFoundError:
            raise ValueError(f"there is no folder {path.parent}; make it first, or name another one") from None
        return path


def board(folder: str | Path) -> Board:
    """The results in a folder and the folders below it: a table for each level, most points first.

    Equal points: the smaller regret first. A file named ``result.json`` that is broken, or
    somebody else's, is skipped, and the board says so. ``ValueError`` for a folder that is not there.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder; name the folder with the reports of the class")
    lines, skipped = [], []
    for path in _results(root):
        place = path.parent.relative_to(root).as_posix()
        try:
            lines.append(BoardLine(place, read_record(path)))
        except ForeignResult as error:
            skipped.append((path.relative_to(root).as_posix(), str(error)))
    return Board(tuple(sorted(lines, key=_place)), tuple(skipped), str(root))


def _place(line: BoardLine) -> tuple[int, float, float, str, str]:
    record = line.record
    regret = float("inf") if record.regret is None else record.regret
    return record.level, -record.points, regret, record.name, line.folder


def _results(root: Path) -> Iterator[Path]:
    """Files of our name, in a fixed order; links to folders are not followed, so that no circle is walked."""
    for here, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(Path(here).relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        if FILE_NAME in files:
            yield Path(here) / FILE_NAME
