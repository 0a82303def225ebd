"""The map of lessons in README.md, written from what the lessons say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.notebooks.info import LessonInfo, lessons

__all__ = ["lesson_table", "readme_is_fresh", "renew_readme", "with_table"]

_BEGIN, _END = "<!-- lessons: begin -->", "<!-- lessons: end -->"


def lesson_table(infos: Iterable[LessonInfo]) -> str:
    """A line for each lesson: a link to it and to its solved copy, what it promises, minutes, difficulty, needs."""
    rows = ["| lesson | what you do | minutes | difficulty | needs |", "| --- | --- | --- | --- | --- |"]
    for info in infos:
        notebook = f"{info.stem}.ipynb"
        links = (
            f"[{info.label} · {info.title}](notebooks/{notebook}) ([solved](notebooks/solutions/{notebook}))"
        )
        promise = " ".join(info.promise.split())
        rows.append(f"| {links} | {promise} | {info.minutes} | {info.difficulty} of 5 | {info.needs} |")
    return "\n".join(rows)


def with_table(text: str, infos: Iterable[LessonInfo]) -> str:
    """``text`` with the table between its two marks; raises ``ValueError`` where a mark is missing."""
    if _BEGIN not in text or _END not in text:
        raise ValueError(f"README.md holds no {_BEGIN} and {_END}; the map of lessons stands between them")
    return re.sub(f"{_BEGIN}.*{_END}", f"{_BEGIN}\n{lesson_table(infos)}\n{_END}", text, flags=re.DOTALL)


def renew_readme(root: Path) -> bool:
    """Write the map into ``root``'s README.md, if there is one; True when it was not up to date."""
    path = root / "README.md"
    if not path.exists():
        return False
    old = path.read_text(encoding="utf-8")
    new = with_table(old, lessons(root))
    if new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def readme_is_fresh(root: Path) -> bool:
    path = root / "README.md"
    if not path.exists():
        return True
    text = path.read_text(encoding="utf-8")
    return with_table(text, lessons(root)) == text
