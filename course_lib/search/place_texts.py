"""The places that were found, as text for a terminal, each with how to open it."""

from __future__ import annotations

from pathlib import Path

from course_lib.base.text import counted
from course_lib.search.entry import MOST_SHOWN, SearchEntry, SearchHit
from course_lib.search.find import SearchResult

__all__ = ["as_text", "name_of", "said_of"]


def as_text(result: SearchResult, most: int = MOST_SHOWN) -> str:
    """What there is to say of the search, then three lines for each of its first ``most`` places."""
    lines = said_of(result, most)
    for number, hit in enumerate(result.hits[:most], start=1):
        lines += ["", f"{number:2}  {name_of(hit.entry)}", f"    {''.join(hit.context)}", f"    {_opened(hit)}"]
    return "\n".join(lines)


def said_of(result: SearchResult, most: int) -> list[str]:
    """How many places there are, and whether other words were taken than those that were given."""
    lines = [result.says] if result.says else []
    if count := len(result.hits):
        shown = f"; the first {most}" if most < count else ""
        lines.append(f"{counted(count, 'place')} for {result.given!r}{shown}.")
    return lines


def name_of(entry: SearchEntry) -> str:
    """What a place is called: "word  reduce-scatter (lesson 02a · ...)"."""
    if entry.kind == "word":
        return f"word: {entry.head} (lesson {entry.where})"
    below = f" › {entry.head}" if entry.head not in ("", entry.where) else ""
    label = {"lesson": "lesson", "docs": "page", "library": "library", "message": "message of"}[entry.kind]
    return f"{label}: {entry.where}{below}" if entry.kind != "library" else f"library: {_dotted(entry)}"


def _dotted(entry: SearchEntry) -> str:
    return f"{entry.where}.{entry.head}".rstrip(".")


def _opened(hit: SearchHit) -> str:
    """The file, and how to open it from a terminal."""
    entry = hit.entry
    more = f"  ({counted(hit.more, 'more paragraph')} there)" if hit.more else ""
    if entry.kind == "lesson":
        label = Path(entry.file).stem.partition("_")[0]
        return f"{entry.file}  `course lab --open {label}`{more}"
    return f"{entry.file}:{entry.line}{more}"
