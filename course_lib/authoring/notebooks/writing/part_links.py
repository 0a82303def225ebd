"""The line by which a part of a lesson leads to the others: written from their titles, and nowhere by hand.

``# Part 2 of 4 · [1: what travels](02a_collectives.ipynb) · ...`` stands in the first cell of each part. The words of a
link are those of the other part's title after its colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from course_lib.authoring.notebooks.writing.first_cell_line import as_comment, words_of, write_all
from course_lib.lessons.info import LessonInfo, lessons, short_title

__all__ = ["part_line", "renew_part_lines", "stale_part_lines"]

_LINE = re.compile(r"^# Part \d+ of \d+ ·.*?(?=^#\n|^# %%)", re.MULTILINE | re.DOTALL)


def part_line(part: LessonInfo, parts: Sequence[LessonInfo]) -> str:
    """Of one of a lesson's parts: which it is, and a link to each of the others."""
    links = [
        f"[{number}: {short_title(other.title)}]({other.stem}.ipynb)"
        for number, other in enumerate(parts, 1)
        if other != part
    ]
    return " · ".join([f"Part {list(parts).index(part) + 1} of {len(parts)}", *links])


def renew_part_lines(root: Path) -> list[str]:
    """Write the lines of those sources whose words are not these; their names."""
    return write_all(_sources(root))


def stale_part_lines(root: Path) -> list[str]:
    """The names of sources whose line says something else than the titles do."""
    return [path.name for path in _sources(root)]


def _sources(root: Path) -> dict[Path, str]:
    """The sources that are not as they should be, each as it should be. How a line is broken makes no difference."""
    by_lesson: dict[str, list[LessonInfo]] = {}
    for info in lessons(root):
        by_lesson.setdefault(info.number, []).append(info)
    found = {}
    for parts in by_lesson.values():
        for part in parts:
            path = root / "notebooks" / "src" / f"{part.stem}.py"
            text = path.read_text(encoding="utf-8")
            stands = _LINE.search(text)
            if len(parts) == 1 or stands is None:  # the builder's rule asks for the links
                continue
            line = part_line(part, parts)
            if words_of(stands[0]) != line:
                found[path] = f"{text[: stands.start()]}{as_comment(line)}\n{text[stands.end() :]}"
    return found
