"""The line by which a part leads to those it builds on: written from the table, and nowhere by hand.

``# This part builds on [02a: what travels](02a_collectives.ipynb). ...`` stands in the first cell, below the line that
leads to the other parts. The words of a link are those of that part's title after its colon.
"""

from __future__ import annotations

import re
from pathlib import Path

from course_lib.authoring.notebooks.writing.first_cell_line import as_comment, words_of, write_all
from course_lib.base.text import and_list
from course_lib.lessons.info import LessonInfo, lessons, short_title
from course_lib.lessons.prerequisites import PREREQUISITES

__all__ = ["needs_line", "renew_needs_lines", "stale_needs_lines"]

_LINE = re.compile(r"^# This part builds on\s.*?(?=^#\n|^# %%)", re.MULTILINE | re.DOTALL)
_PARTS = re.compile(r"^# Part \d+ of \d+ ·.*?^#\n", re.MULTILINE | re.DOTALL)


def needs_line(part: LessonInfo, by_label: dict[str, LessonInfo]) -> str:
    """What a part builds on, with a link to each, and how to ask which are done; "" where that is nothing.

    Raises ``KeyError`` for a part that is in no row of the table, or that ``by_label`` lacks.
    """
    needed = [by_label[label] for label in PREREQUISITES[part.label]]
    if not needed:
        return ""
    links = [f"[{one.label}: {short_title(one.title)}]({one.stem}.ipynb)" for one in needed]
    them = "it" if len(needed) == 1 else "them"
    asked = f'`from course_lib import start; start("{part.label}")`'
    return f"This part builds on {and_list(links)}. Have you done {them}? {asked} says whether you have."


def renew_needs_lines(root: Path) -> list[str]:
    """Write the lines of those sources whose words are not these; their names."""
    return write_all(_sources(root))


def stale_needs_lines(root: Path) -> list[str]:
    """The names of sources that say something else than the table does, or nothing."""
    return [path.name for path in _sources(root)]


def _sources(root: Path) -> dict[Path, str]:
    """The sources that are not as they should be, each as it should be. How a line is broken makes no difference.

    A part that the table does not have, or whose prerequisites are not below ``root``, is left as it is.
    """
    by_label = {info.label: info for info in lessons(root)}
    found = {}
    for part in by_label.values():
        path = root / "notebooks" / "src" / f"{part.stem}.py"
        text = path.read_text(encoding="utf-8")
        place = _PARTS.search(text)
        if place is None or not by_label.keys() >= {*PREREQUISITES.get(part.label, (None,))}:
            continue
        line, stands = needs_line(part, by_label), _LINE.search(text)
        if (words_of(stands[0]) if stands else "") == line:
            continue
        start, end = stands.span() if stands else (place.end(), place.end())
        found[path] = f"{text[:start]}{as_comment(line)}\n{'' if stands else '#' + chr(10)}{text[end:]}"
    return found
