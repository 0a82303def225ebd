"""How large each part is: words, lines that are given and lines that the learner writes, questions, checks, minutes.

A maintainer sees in it which part gives too much, asks too often, or says too few minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.lessons.info import source_files, tour_file
from course_lib.lessons.regions import find_regions
from course_lib.lessons.source import Source, read_source

__all__ = ["PartSize", "size_of", "size_table"]

_IMPORT = re.compile(r"(?:from|import)\s")
_ASKED, _CHECKED = (re.compile(rf"\b{call}\(\s*[\"']([\w.]+)") for call in ("ask", "check"))
_WORD = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class PartSize:
    """Counts of one part. ``given`` and ``written``: lines of code, without imports, blank lines and comments."""

    label: str
    words: int
    given: int
    written: int
    asked: int
    checks: int
    minutes: int

    @property
    def ratio(self) -> str:
        """Lines given for each line written; a dash where nothing is written."""
        return f"{self.given / self.written:.1f}" if self.written else "–"


def size_of(source: Source) -> PartSize:
    """What a part has. Text of the worked solutions counts as written, and its stubs as neither."""
    texts = [cell.text for cell in source.cells if not cell.is_code]
    codes = [cell for cell in source.cells if cell.is_code]
    code = "\n".join(cell.text for cell in codes)
    given = written = 0
    for cell in codes:
        lines = cell.text.splitlines()
        regions = find_regions(cell.text, lambda line, cell=cell: source.where(cell, line))
        written += sum(map(_is_counted, (line for region in regions for line in region.body)))
        in_regions = {at for region in regions for at in range(region.begin, region.end + 1)}
        given += sum(_is_counted(line) for at, line in enumerate(lines) if at not in in_regions)
    return PartSize(
        label=source.info.label or "tour",
        words=sum(1 for text in texts for word in text.split() if _WORD.search(word)),
        given=given,
        written=written,
        asked=len(set(_ASKED.findall(code))),
        checks=len(set(_CHECKED.findall(code))),
        minutes=source.info.minutes,
    )


def size_table(root: Path) -> str:
    """A line for each part, and one for all."""
    sizes = [size_of(read_source(path)) for path in (*tour_file(root), *source_files(root))]
    names = ("part", "words", "lines given", "lines written", "given / written", "questions", "checks", "minutes")
    rows = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    return "\n".join([*rows, *map(_row, sizes), _row(_sum("all", sizes))])


def _row(size: PartSize) -> str:
    counts = (f"{count:,}" for count in (size.asked, size.checks, size.minutes))
    cells = (size.label, f"{size.words:,}", f"{size.given:,}", f"{size.written:,}", size.ratio, *counts)
    return f"| {' | '.join(cells)} |"


def _sum(label: str, sizes: Iterable[PartSize]) -> PartSize:
    found = list(sizes)
    names = ("words", "given", "written", "asked", "checks", "minutes")
    return PartSize(label, **{name: sum(getattr(size, name) for size in found) for name in names})


def _is_counted(line: str) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith("#") and not _IMPORT.match(line)
