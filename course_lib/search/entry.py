"""One text that can be found, and a place where it was."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "MOST_SHOWN", "SearchEntry", "SearchHit"]

# What a text is, and what it is called on the command line: `--in docs`.
KINDS = {"word": "glossary", "lesson": "lessons", "docs": "docs", "library": "library", "message": "messages"}
MOST_SHOWN = 10  # places, where nobody says another number


@dataclass(frozen=True)
class SearchEntry:
    """A paragraph, a docstring or a sentence. ``kind`` is one of ``KINDS``; ``file`` is below the course's folder.

    ``where`` is the page or the module, ``head`` what stands above the text there: a heading, a word, a function.
    """

    kind: str
    where: str
    head: str
    text: str
    file: str
    line: int


@dataclass(frozen=True)
class SearchHit:
    """An entry that was found. ``context`` is one line of it in three parts: before the word, the word, after it.

    ``more`` counts further paragraphs under the same heading that have the words too.
    """

    entry: SearchEntry
    score: float
    context: tuple[str, str, str]
    more: int = 0
