"""Which entries have the words, the best first: a glossary's word, a heading, words that stand together, lessons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from course_lib.search.entry import SearchEntry, SearchHit
from course_lib.search.sources import SearchFile
from course_lib.search.words import raw_part, word_list

__all__ = ["by_place", "having", "matched"]

_KIND = {"word": 3.0, "lesson": 6.0, "docs": 2.0, "library": 1.5, "message": 1.0}
_SHORTEST_BEGINNING = 4  # letters: "shard" finds "sharded"
_CONTEXT_LETTERS = 110
_MOST_OF_A_MESSAGE = 0.75
_FEWEST_OF_A_MESSAGE = 5
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SIGNS = re.compile(r"\*\*|``?|<!--.*?-->")


def having(files: Iterable[SearchFile], words: Sequence[str], share: float = 1.0) -> list[SearchHit]:
    """The entries with all of the words (or with this share of them), the best first; files in their order.

    With a share, a sentence that the library says is found too where most of its own words were given.
    """
    parts = [raw_part(word) for word in words]
    needed = share * len(words)
    found = []
    for file in files:
        if sum(part in file.folded for part in parts) < min(needed, _FEWEST_OF_A_MESSAGE):
            continue
        for entry in file.entries():
            said = _share_of_message(entry, words) if share < 1 else 0.0
            folded = f"{entry.head} {entry.text}".casefold()
            if said or sum(part in folded for part in parts) >= needed:
                found += _hit(entry, words, 1 if said else needed, said)
    return sorted(found, key=lambda hit: -hit.score)


def _share_of_message(entry: SearchEntry, words: Sequence[str]) -> float:
    """How much of a message was given, its own values left out: from 3/4 to 1, or 0 where it is less."""
    if entry.kind != "message":
        return 0.0
    own = {word for word in word_list(entry.text) if not word.isdigit()}
    share = len(own & set(words)) / max(1, len(own))
    return share if share >= _MOST_OF_A_MESSAGE and len(own) >= _FEWEST_OF_A_MESSAGE else 0.0


def by_place(hits: Iterable[SearchHit]) -> list[SearchHit]:
    """One hit for each heading of a page: the best, with how many others there are."""
    best: dict[tuple[str, ...], SearchHit] = {}
    for hit in hits:
        entry = hit.entry
        key = (entry.kind, entry.file, entry.head, entry.text if entry.kind == "message" else "")
        best[key] = replace(best[key], more=best[key].more + 1) if key in best else hit
    return list(best.values())


def matched(word: str, given: str) -> float:
    """How well a word of a text answers one that was given: 1, less where it only begins so, 0."""
    if word == given:
        return 1.0
    return 0.5 if len(given) >= _SHORTEST_BEGINNING and word.startswith(given) else 0.0


def _hit(entry: SearchEntry, words: Sequence[str], needed: float, said: float) -> list[SearchHit]:
    """The entry as a hit, in a list; an empty one where it has too few of the words."""
    head, body = word_list(entry.head), word_list(entry.text)
    in_head = [max((matched(one, word) for one in head), default=0.0) for word in words]
    in_body = [max((matched(one, word) for one in body), default=0.0) for word in words]
    best = [max(pair) for pair in zip(in_head, in_body, strict=True)]
    if sum(map(bool, best)) < needed:
        return []
    score = _KIND[entry.kind] + 6 * sum(best) / len(words) + 10 * said
    score += 4 * all(in_head) + 3 * (_stands(words, head) or _stands(words, body))
    score += (15 if entry.kind == "word" else 3) * (head == list(words))
    score += 0.2 * min(5, sum(body.count(word) for word in words))
    return [SearchHit(entry, score, _context(entry, words))]


def _stands(words: Sequence[str], text: Sequence[str]) -> bool:
    """Whether the words stand in the text one after the other."""
    count = len(words)
    return count > 1 and any(text[i : i + count] == list(words) for i in range(len(text) - count + 1))


def _context(entry: SearchEntry, words: Sequence[str]) -> tuple[str, str, str]:
    """The sentence with most of the words, cut to a line around the first of them."""
    text = _SIGNS.sub("", _LINK.sub(r"\1", entry.text)) or entry.head
    sentences = [" ".join(one.strip("|").split()) for one in _sentences(text)]
    line = max(sentences, key=lambda one: len(_spans(one, words)) and _weight(one, words))
    spans = _spans(line, words)
    begin, end = spans[0] if spans else (0, 0)
    first = max(0, min(begin - _CONTEXT_LETTERS // 3, len(line) - _CONTEXT_LETTERS))
    first = line.rfind(" ", 0, first) + 1 if first else 0
    last = len(line) if len(line) <= first + _CONTEXT_LETTERS else line.rfind(" ", end, first + _CONTEXT_LETTERS + 1)
    last = last if last >= end else len(line)
    before, after = line[first:begin], line[end:last]
    return "…" * bool(first) + before, line[begin:end], after + "…" * (last < len(line))


def _sentences(text: str) -> list[str]:
    return [one for one in re.split(r"(?<=[.?!])\s+", " ".join(text.split())) if one] or [text]


def _weight(line: str, words: Sequence[str]) -> float:
    there = word_list(line)
    return sum(max((matched(one, word) for one in there), default=0.0) for word in words) + _stands(words, there)


def _spans(line: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words stand in a line; words one after the other are one span."""
    spans: list[tuple[int, int]] = []
    for found in re.finditer(r"[^\W_]+", line):
        if any(matched(one, word) for one in word_list(found[0]) for word in words):
            is_next = spans and re.fullmatch(r"[\s_-]", line[spans[-1][1] : found.start()])
            spans[-1:] = [(spans[-1][0], found.end())] if is_next else [*spans[-1:], found.span()]
    return spans
