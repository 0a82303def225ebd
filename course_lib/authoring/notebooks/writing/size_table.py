"""How large each part is: words, lines that are given and lines that the learner writes, questions, checks, minutes.

A maintainer sees in it which part gives too much, asks too often, or says too few minutes. Minutes are counted from the
other columns by three numbers that were fitted to 36 parts, of which readers had said how long they took
(docs/maintaining/sizes.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lessons.info import source_files, tour_file
from course_lib.lessons.regions import find_regions
from course_lib.lessons.source import Cell, Source, read_source

__all__ = ["STOP", "PartSize", "size_of", "size_table"]

STOP = "### A good place to stop"
"""The heading of the cell between two sittings of a part that is no build."""

_WORDS_PER_MIN, _GIVEN_PER_MIN, _MIN_PER_WRITTEN = 120, 6, 1.9  # with questions, runs and the quiz in them

_IMPORT = re.compile(r"(?:from|import)\s")
_ASKED, _CHECKED = (re.compile(rf"\b{call}\(\s*[\"']([\w.]+)") for call in ("ask", "check"))
_WORD = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class PartSize:
    """Counts of one part. ``given`` and ``written``: lines of code, without imports, blank lines and comments.

    ``minutes`` are those that the page says, for all sittings; ``counted_min`` those of each sitting by these counts.
    The tour and builds have none: of them no reader has said how long they took.
    """

    label: str
    words: int
    given: int
    written: int
    asked: int
    checks: int
    minutes: int
    counted_min: tuple[int, ...] = ()

    @property
    def ratio(self) -> str:
        """Lines given for each line written; a dash where nothing is written."""
        return f"{self.given / self.written:.1f}" if self.written else "–"


def size_of(source: Source) -> PartSize:
    """What a part has. Text of the worked solutions counts as written, and its stubs as neither."""
    code = "\n".join(cell.text for cell in source.cells if cell.is_code)
    by_sitting = [_words_and_lines(source, cells) for cells in _sittings(source.cells)]
    words, given, written = (sum(counts) for counts in zip(*by_sitting, strict=True))
    is_counted = bool(source.info.label) and not source.info.is_build
    return PartSize(
        label=source.info.label or "tour",
        words=words,
        given=given,
        written=written,
        asked=len(set(_ASKED.findall(code))),
        checks=len(set(_CHECKED.findall(code))),
        minutes=source.info.minutes,
        counted_min=tuple(_minutes(*counts) for counts in by_sitting) if is_counted else (),
    )


def _sittings(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells of each sitting: all of them, or those up to a good place to stop and those after it."""
    found: list[list[Cell]] = [[]]
    for cell in cells:
        found[-1].append(cell)
        if not cell.is_code and cell.text.startswith(STOP):
            found.append([])
    return found


def _words_and_lines(source: Source, cells: Iterable[Cell]) -> tuple[int, int, int]:
    """Words of text, lines of code that are given, and lines that the learner writes."""
    words = given = written = 0
    for cell in cells:
        if not cell.is_code:
            words += sum(1 for word in cell.text.split() if _WORD.search(word))
            continue
        regions = find_regions(cell.text, lambda line, cell=cell: source.where(cell, line))
        written += sum(map(_is_counted, (line for region in regions for line in region.body)))
        in_regions = {at for region in regions for at in range(region.begin, region.end + 1)}
        given += sum(_is_counted(line) for at, line in enumerate(cell.text.splitlines()) if at not in in_regions)
    return words, given, written


def _minutes(words: int, given: int, written: int) -> int:
    return round(words / _WORDS_PER_MIN + given / _GIVEN_PER_MIN + written * _MIN_PER_WRITTEN)


def size_table(root: Path) -> str:
    """A line for each part, and one for all."""
    sizes = [size_of(read_source(path)) for path in (*tour_file(root), *source_files(root))]
    names = ("part", "words", "lines given", "lines written", "given / written", "questions", "checks", "minutes")
    names += ("counted",)
    rows = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    return "\n".join([*rows, *map(_row, sizes), _row(_sum("all", sizes))])


def _row(size: PartSize) -> str:
    counts = (f"{count:,}" for count in (size.asked, size.checks, size.minutes))
    counted = " + ".join(map(str, size.counted_min)) or "–"
    cells = (size.label, f"{size.words:,}", f"{size.given:,}", f"{size.written:,}", size.ratio, *counts, counted)
    return f"| {' | '.join(cells)} |"


def _sum(label: str, sizes: Iterable[PartSize]) -> PartSize:
    found = list(sizes)
    names = ("words", "given", "written", "asked", "checks", "minutes")
    words, given, written, asked, checks, minutes = (sum(getattr(size, name) for size in found) for name in names)
    return PartSize(label, words, given, written, asked, checks, minutes)


def _is_counted(line: str) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith("#") and not _IMPORT.match(line)
