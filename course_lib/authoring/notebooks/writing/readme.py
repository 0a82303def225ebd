"""README.md and the pages behind it: what stands in them between two marks is written here, and nowhere by hand.

A block begins with ``<!-- lessons: begin -->`` and ends with ``<!-- lessons: end -->``; ``lessons`` is its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from course_lib.authoring.notebooks.writing.size_table import size_table
from course_lib.lessons.info import LessonInfo, lessons, tour
from course_lib.lessons.ways import path_sections, path_table

__all__ = [
    "BLOCKS",
    "command_table",
    "lesson_table",
    "measurement_table",
    "renew_pages",
    "stale_pages",
    "with_block",
]

BLOCKS = {
    "README.md": ("paths",),
    "docs/lessons.md": ("lessons",),
    "docs/commands.md": ("verbs", "measurements"),
    "docs/paths.md": ("more",),
    "docs/maintaining/sizes.md": ("sizes",),
}
"""The blocks of each page, by their names."""


def lesson_table(infos: Iterable[LessonInfo]) -> str:
    """A line for each lesson: a link to it and to its solved copy, what it promises, minutes, difficulty, needs."""
    rows = ["| lesson | what you do | minutes | difficulty | needs |", "| --- | --- | --- | --- | --- |"]
    for info in infos:
        notebook = f"{info.stem}.ipynb"
        name = f"{info.label or 'Tour'} · {info.title}"
        links = f"[{name}](../notebooks/{notebook}) ([solved](../notebooks/solutions/{notebook}))"
        promise = " ".join(info.promise.split())
        rows.append(f"| {links} | {promise} | {info.minutes_text} | {info.difficulty} of 5 | {info.needs} |")
    return "\n".join(rows)


def command_table() -> str:
    """A line for each verb of ``course``, in its own words."""
    from course_lib.cli import VERBS

    return _two_columns((f"./course {name}", verb.summary) for name, verb in VERBS.items())


def measurement_table() -> str:
    """A line for each measurement of ``course bench``, in its own words."""
    from course_lib.authoring.bench import BENCHES

    return _two_columns((f"./course bench {name}", summary) for name, summary in sorted(BENCHES.items()))


def with_block(text: str, name: str, content: Callable[[], str], page: str) -> str:
    """``text`` with the content between the two marks of a block; ValueError where the page has no such marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        raise ValueError(f"{page} holds no {begin} and {end}; what `course build` writes stands between them")
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{content()}\n{end}", text, flags=re.DOTALL)


def renew_pages(root: Path) -> list[str]:
    """Write the blocks of those pages that ``root`` has; the names of those that were not up to date."""
    renewed = []
    for page, (old, new) in _pages(root).items():
        if new != old:
            (root / page).write_text(new, encoding="utf-8")
            renewed.append(page)
    return renewed


def stale_pages(root: Path) -> list[str]:
    """The names of pages with a block that is not up to date."""
    return [page for page, (old, new) in _pages(root).items() if new != old]


def _pages(root: Path) -> dict[str, tuple[str, str]]:
    """Each page that is there: its text as it is, and as it should be."""
    infos, found = [*tour(root), *lessons(root)], {}
    for page, names in BLOCKS.items():
        if (root / page).exists():
            old = new = (root / page).read_text(encoding="utf-8")
            for name in names:
                new = with_block(new, name, partial(_content, name, infos, root), page)
            found[page] = (old, new)
    return found


def _content(name: str, infos: Sequence[LessonInfo], root: Path) -> str:
    if name == "sizes":
        return size_table(root)
    if name == "verbs":
        return command_table()
    if name == "measurements":
        return measurement_table()
    if name == "more":
        return path_sections(infos)
    return lesson_table(infos) if name == "lessons" else path_table(infos)


def _two_columns(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| `{command}` | {summary} |" for command, summary in rows)])
