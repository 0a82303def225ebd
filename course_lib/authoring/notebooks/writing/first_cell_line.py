"""A line that the builder writes into the first cell of sources: its words, broken into comments, and its renewal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from course_lib.lessons.info import LessonInfo

__all__ = ["as_comment", "link_words", "words_of", "write_all"]

_WIDTH = 119


def as_comment(line: str) -> str:
    """The words as a paragraph of a markdown cell: each of its lines begins with ``# ``."""
    return textwrap.fill(line, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def words_of(paragraph: str) -> str:
    """The words of such a paragraph, however it is broken."""
    return " ".join(paragraph.replace("\n#", "\n").removeprefix("#").split())


def link_words(part: LessonInfo) -> str:
    """What a link to a part says: the words of its title after the colon."""
    return part.title.partition(": ")[2] or part.title


def write_all(sources: Mapping[Path, str]) -> list[str]:
    """Write each source as it should be; their names."""
    for path, text in sources.items():
        path.write_text(text, encoding="utf-8")
    return [path.name for path in sources]
