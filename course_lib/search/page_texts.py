"""Markdown as entries, heading by heading: the text of a lesson's source without its code, the glossary, a page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from course_lib.search.entry import SearchEntry

__all__ = ["glossary_entries", "lesson_entries", "page_entries"]

_HEADING = re.compile(r"^#{1,5} (?P<text>\S.*)$")
_CELL = re.compile(r"^# %%")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")
_SOURCE = re.compile(r"\s*\*Lesson \[(?P<lesson>[^\]]+)\]\([^)]*\)\.\*\s*$")
# Of a lesson's first cell: its facts, and the links to other parts.
_LABEL = re.compile(r"\*\*(?:\d × )?\d+ minutes ·|Part \d+ of \d+ ·|This part builds on ")
Line = tuple[int, str]  # its number in the file, from 1


def lesson_entries(text: str, file: str, stem: str) -> list[SearchEntry]:
    """The paragraphs of a lesson's source (percent format): markdown cells alone, so that no solution is among them."""
    lines: list[Line] = []
    is_text = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _CELL.match(line):
            is_text = "[markdown]" in line
            lines.append((number, ""))
        elif is_text:
            lines.append((number, line.removeprefix("#").removeprefix(" ")))
    title = next((found["text"] for _, line in lines if (found := _HEADING.match(line))), stem)
    found = [SearchEntry("lesson", title, head, body, file, number) for number, head, body in _paragraphs(lines, title)]
    return [entry for entry in found if not _LABEL.match(entry.text)]


def page_entries(text: str, file: str) -> list[SearchEntry]:
    """The paragraphs of a page of markdown."""
    lines = list(enumerate(_COMMENT.sub(_blank, text).splitlines(), start=1))
    title = next((found["text"] for _, line in lines if (found := _HEADING.match(line))), file)
    return [SearchEntry("docs", title, head, body, file, number) for number, head, body in _paragraphs(lines, title)]


def glossary_entries(text: str, file: str) -> list[SearchEntry]:
    """The words of the glossary, each with the lesson that explains it; other names lead to their word there."""
    found = []
    for number, head, body in _paragraphs(list(enumerate(text.splitlines(), start=1)), ""):
        if source := _SOURCE.search(body):
            found.append(SearchEntry("word", source["lesson"], head, _SOURCE.sub("", body), file, number))
    return found


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _paragraphs(lines: list[Line], title: str) -> Iterator[tuple[int, str, str]]:
    """Line, heading and text of each paragraph, row of a table, or item of a list; the title is its own heading."""
    head, kept, begin = title, [], 0
    for number, line in [*lines, (0, "")]:
        line = line.strip()
        heading = _HEADING.match(line)
        is_new = not line or bool(heading) or line.startswith("|") or bool(_ITEM.match(line))
        if is_new and kept:
            yield begin, head, "\n".join(kept)
            kept = []
        if heading:
            head = heading["text"].replace("`", "")
        elif line and not line.startswith(("<!--", "```")) and not re.fullmatch(r"[|:\- ]+", line):
            begin = begin if kept else number
            kept.append(line)
