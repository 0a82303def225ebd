"""Rules over sentences: how long one may be, and the wordings that have to be read twice.

A page is Markdown. A formula, a link, an address and code count as one word each. What holds no sentences is left out:
fenced code, comments, pictures. A heading, a list item and a cell of a table are read each on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.authoring.notebooks.rules.sentences_that_stand import REASONED

__all__ = [
    "KINDS",
    "LENGTH",
    "MAX_WORDS",
    "Sentence",
    "breaches",
    "found_in",
    "sentences_are_read_once",
    "sentences_of",
]

MAX_WORDS = 25
LENGTH = f"more than {MAX_WORDS} words"

_LEFT_OUT = (
    re.compile(r"^( *)(```|~~~)[^\n]*\n.*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"!\[[^\]]*\]\([^)]*\)"),
    re.compile(r"</?[a-zA-Z][^>\n]*>"),
)
_AS_ONE_WORD = (
    re.compile(r"``[^`]+``|`[^`]+`"),
    re.compile(r"\$\$.+?\$\$|\$[^$]+\$", re.DOTALL),
    re.compile(r"\[[^\]]*\]\([^)]*\)"),
    re.compile(r"https?://\S+"),
)
_BLANK, _NEWLINE = "\ue000", "\ue001"  # in what counts as one word: for a blank, and for a new line
_ITEM = re.compile(r" *(?:>|[-*+]|\d+\.)[ \t]+")
_END = re.compile(r"[.?!][\"')\]*_]*(\s+)")
_SHORTENED = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|etc|approx|Fig|Eq|al)|^\d+|\.\.)\.$")
_LETTER = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Sentence:
    """A sentence, the line of its page where it begins (from 1), and whether its paragraph begins with it."""

    text: str
    line: int
    first: bool
    words: int  # a formula, a link and code are one each


def _has(pattern: str, *, first: bool = False) -> Callable[[Sentence], bool]:
    """Whether a sentence holds ``pattern``; with ``first``, and its paragraph begins with it."""
    found = re.compile(pattern)
    return lambda sentence: (sentence.first or not first) and found.search(sentence.text) is not None


_PARTICIPLE = (
    r"(?!When|Then|Even|Often|Speed|Need)(?:[A-Z][a-z]+(?:ed|en)|Told|Said|Left|Sent|Kept|Held|Put|Meant|Built|Made|"
    r"Done|Shown|Known)"
)
_VERB = (
    r"(?:is|are|was|were|has|have|had|does|do|did|can|cannot|could|may|might|must|will|would|should|takes?|makes?|"
    r"gives?|needs?|holds?|keeps?|shows?|says?|goes|comes?|costs?|sends?|runs?|works?|also|then)"
)

KINDS: dict[str, tuple[Callable[[Sentence], bool], str]] = {
    LENGTH: (lambda sentence: sentence.words > MAX_WORDS, "make two of it"),
    "an inversion": (
        _has(
            rf"^\W*(?:Not )?{_PARTICIPLE} (?:is|are|was|were)\b|^\W*What [^?]{{1,60}} (?:is|was) that\b|"
            r"^\W*Of (?!course)[^?]+$"
        ),
        "begin with who does it",
    ),
    "'who' without a noun": (_has(r"^\W*Who(?:ever)? [^?]{20,}$"), "say which people, ranks or programs"),
    "'told' for a number": (_has(r"\btold\b(?! apart)"), "say who prints, predicts or reports it"),
    "'of what'": (_has(r"(?i)\bof what\b"), "name the thing"),
    "a pronoun that begins a paragraph": (
        _has(rf"^\W*(?:It|They|This|That|These|Those|He|She|Both) {_VERB}\b", first=True),
        "begin with its noun",
    ),
}
"""What is looked for: a kind's name, whether a sentence is of it, and what to do."""


def sentences_of(markdown: str) -> Iterator[Sentence]:
    """The sentences of a page or of a cell, in its order."""
    for line, block in _blocks(_plain(markdown)):
        for start, text in _split(block):
            words = sum(1 for piece in text.split() if _LETTER.search(piece))
            above = sum(map(block[:start].count, ("\n", _NEWLINE)))
            yield Sentence(" ".join(_shown(text).split()), line + above, start == 0, words)


def found_in(markdown: str) -> list[tuple[Sentence, str]]:
    """The sentences of ``markdown`` that are of a kind, each with the kind, in its order."""
    return [
        (sentence, kind) for sentence in sentences_of(markdown) for kind, (is_of, _) in KINDS.items() if is_of(sentence)
    ]


def breaches(markdown: str, page: str) -> list[tuple[Sentence, str]]:
    """Those of ``found_in`` that have to be mended: the others stand in ``sentences_that_stand``, with a reason.

    ``page`` is the name by which the page is known there, such as ``02a_collectives`` or ``docs/nodes.md``.
    """
    reasons = REASONED.get(page, {})
    return [
        (sentence, kind)
        for sentence, kind in found_in(markdown)
        if not any(sentence.text.startswith(start) for start in reasons)
    ]


def sentences_are_read_once(lesson: Lesson) -> list[str]:
    """No sentence is too long, and none has a wording of which it is known that people read it twice."""
    return [
        f"{lesson.at(cell, sentence.line)}: {kind}: {sentence.text!r}; {KINDS[kind][1]}"
        for cell in lesson.source.cells
        if not cell.is_code
        for sentence, kind in breaches(cell.text, lesson.paths.source.stem)
    ]


def _plain(markdown: str) -> str:
    """A page without what holds no sentences, each formula, link and code as one word; lines stay where they are."""
    for pattern in _LEFT_OUT:
        markdown = pattern.sub(lambda match: "\n" * match[0].count("\n"), markdown)
    for pattern in _AS_ONE_WORD:
        markdown = pattern.sub(lambda match: match[0].replace(" ", _BLANK).replace("\n", _NEWLINE), markdown)
    return markdown


def _shown(text: str) -> str:
    return text.replace(_BLANK, " ").replace(_NEWLINE, " ")


def _blocks(plain: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, heading, list item and cell of a table, with the line where it begins."""
    begun, number, lines = 1, 1, list[str]()
    for line in [*plain.split("\n"), ""]:
        apart = line.startswith(("#", "|")) or not line.strip()
        item = _ITEM.match(line)
        if lines and (apart or item):
            yield begun, "\n".join(lines)
            lines = []
        if line.startswith("#"):
            yield number, line.lstrip("# ")
        elif line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|") if cell.strip(" :-"))
        elif not apart:
            begun = begun if lines else number
            lines.append(line[item.end() :] if item else line)
        number += 1 + line.count(_NEWLINE)


def _split(block: str) -> Iterator[tuple[int, str]]:
    """The sentences of a paragraph, each with where it begins."""
    start = 0
    for end in _END.finditer(block):
        text = block[start : end.start(1)]
        if not _SHORTENED.search(text):
            yield start, text
            start = end.end(1)
    if block[start:].strip():
        yield start, block[start:]
