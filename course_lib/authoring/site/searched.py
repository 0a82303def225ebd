"""Pages that only the site's search leads to: what docstrings and messages of the library say.

With them the search finds what ``course find`` does. ``in_html.py`` keeps answers out of it.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from course_lib.search.entry import SearchEntry
from course_lib.search.sources import search_files

__all__ = ["library_pages"]

_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_SIGN = re.compile(r"([!-/:-@\[-`{-~])")


def library_pages(root: Path) -> dict[str, str]:
    """A page for each room of the library that `course find` searches: its docstrings and messages, by their files."""
    entries = [entry for file in search_files(root) for entry in file.entries() if entry.kind in ("library", "message")]
    rooms = itertools.groupby(sorted(entries, key=_place), key=_room)
    return {f"library/{room}.md": _page(room, list(found)) for room, found in rooms}


def _place(entry: SearchEntry) -> tuple[str, str, int]:
    return _room(entry), entry.file, entry.line


def _room(entry: SearchEntry) -> str:
    """The folder below course_lib, or the module there."""
    return Path(entry.file).parts[1].removesuffix(".py").strip("_")


def _page(room: str, entries: list[SearchEntry]) -> str:
    lines = ["---", "orphan: true", "---", "", f"# The library: {room}", ""]
    lines += ["What docstrings and messages say, file by file. [The library](../library.md) says how to read it.", ""]
    for file, found in itertools.groupby(entries, key=lambda entry: entry.file):
        lines += [f"## {_escaped(file)}", ""]
        for entry in found:
            head = f"**{_escaped(entry.head)}**: " if entry.head else ""
            lines += [head + _shown(" ".join(entry.text.split())), ""]
    return "\n".join(lines)


def _shown(text: str) -> str:
    """Plain words, with code as code."""
    parts = _CODE.split(text)
    return "".join(f"`{part}`" if place % 2 and "`" not in part else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    """No sign of it means anything in Markdown."""
    return _SIGN.sub(r"\\\1", text)
