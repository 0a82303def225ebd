"""A line that the builder writes into the first cell of sources: its words, broken into comments, and its renewal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

__all__ = ["as_comment", "words_of", "write_all"]

_WIDTH = 119


def as_comment(line: str) -> str:
    """The words as a paragraph of a markdown cell: each of its lines begins with ``# ``."""
    return textwrap.fill(line, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def words_of(paragraph: str) -> str:
    """The words of such a paragraph, however it is broken."""
    return " ".join(paragraph.replace("\n#", "\n").removeprefix("#").split())


def write_all(sources: Mapping[Path, str]) -> list[str]:
    """Write each source as it should be; their names."""
    for path, text in sources.items():
        path.write_text(text, encoding="utf-8")
    return [path.name for path in sources]
