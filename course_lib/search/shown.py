"""``find("reduce-scatter")``: the places that were found, as a table with links to notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from course_lib.base.html import templates
from course_lib.forms.show import Shown, panel, paragraph, show
from course_lib.lessons.info import heading_link
from course_lib.search.entry import KINDS, MOST_SHOWN, SearchEntry, SearchHit
from course_lib.search.find import SearchResult, search
from course_lib.search.place_texts import as_text, name_of, said_of

__all__ = ["FoundPlaces", "find"]

_fill = templates(__file__)


@dataclass(frozen=True, repr=False)
class FoundPlaces(Shown):
    """The first ``most`` places of a search."""

    result: SearchResult
    most: int = MOST_SHOWN

    @property
    def hits(self) -> tuple[SearchHit, ...]:
        """Those that are shown."""
        return self.result.hits[: self.most]

    def __repr__(self) -> str:
        return as_text(self.result, self.most)

    def _html(self) -> str:
        rows = [_row(hit) for hit in self.hits]
        body = "".join(map(paragraph, said_of(self.result, self.most))) + (
            _fill("found.html", rows=rows) if rows else ""
        )
        return panel("info" if rows else "quiet", "", body)


def find(words: str, *, only: str | Sequence[str] = (), most: int = MOST_SHOWN) -> FoundPlaces:
    """Show where the course speaks of something: ``find("reduce-scatter")``. Returns the places.

    Args:
        words: Words, all of which a place has, by whatever hyphens and capitals; or a message that you have met.
        only: One or several of "glossary", "lessons", "docs", "library", "messages"; all of them without.
        most: How many places are shown, at least 1.

    Raises ``ValueError`` where there is no word to look for, for another ``only``, and for a ``most`` below 1.
    """
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise ValueError(f"most={most!r} is no number of places to show; give a whole number, 1 or more.")
    found = FoundPlaces(search(words, kinds=(only,) if isinstance(only, str) else tuple(only)), most)
    show(found)
    return found


def _row(hit: SearchHit) -> dict[str, Any]:
    entry = hit.entry
    before, word, after = hit.context
    name = name_of(entry).partition(": ")[2]
    where = {"kind": KINDS[entry.kind], "where": name, "place": f"{entry.file}:{entry.line}", "link": _link(entry)}
    return {**where, "before": before, "word": word, "after": after}


def _link(entry: SearchEntry) -> str:
    """A link that the notebook can follow from its folder; "" where the file does not lie where it would lead."""
    if entry.kind in ("library", "message"):
        return ""
    here = Path.cwd()
    for folder in (here, *list(here.parents)[:2]):
        if (folder / entry.file).is_file():
            path = os.path.relpath(folder / entry.file, here).replace(os.sep, "/")
            return quote(path) + heading_link(entry.head if entry.head != entry.where else "")
    return ""
