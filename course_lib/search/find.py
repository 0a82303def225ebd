"""A search: all of the words; else the nearest words; else most of the words, as for a message that was pasted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.base.foreign_text import one_line
from course_lib.base.paths import project_root
from course_lib.base.text import and_list
from course_lib.search.entry import KINDS, SearchHit
from course_lib.search.ranking import by_place, having
from course_lib.search.sources import SearchFile, search_files
from course_lib.search.words import as_typed, in_two, nearest, word_list

__all__ = ["SearchResult", "search"]

_MOST_LETTERS = 2000
_MOST_OF_THEM = 0.6
_FEWEST_FOR_MOST = 4  # words: fewer are asked for together


@dataclass(frozen=True)
class SearchResult:
    """Places, the best first, and a sentence where they are not simply those with all of the words."""

    given: str
    hits: tuple[SearchHit, ...]
    says: str = ""


def search(words: str, *, kinds: Sequence[str] = (), root: Path | None = None) -> SearchResult:
    """Where the course has all of these words, by whatever hyphens and capitals.

    Args:
        words: What to look for: "reduce-scatter", or a message.
        kinds: Of which texts alone: "glossary", "lessons", "docs", "library", "messages"; all without.
        root: The course's folder; this course by default.

    Raises ``ValueError`` where there is no word to look for, or a kind that there is not.
    """
    shown, wanted = one_line(words, 80), _wanted(words)
    _check_kinds(kinds)
    files = search_files(root or project_root())
    if hits := _of_kinds(_as_one_or_two(files, wanted), kinds):
        return SearchResult(shown, hits)
    known = _Known(files)
    typed = dict(zip(word_list(words), as_typed(words), strict=True))
    lacking = [word for word in wanted if not known.has(word)]
    near = {word: nearest(typed[word], known.typed) for word in lacking}
    if lacking and all(near.values()) and len(lacking) * 2 <= max(2, len(wanted)):
        better = [one for word in wanted for one in word_list(near[word][0] if word in near else word)]
        says = f"No place has {_quoted(map(typed.get, lacking))}. The nearest {_words_there_are(near)}."
        return SearchResult(shown, _of_kinds(having(files, better), kinds), f"{says} Shown is what that would find.")
    if len(wanted) >= _FEWEST_FOR_MOST and (hits := _of_kinds(having(files, wanted, _MOST_OF_THEM), kinds)):
        return SearchResult(shown, hits, "No place has all of these words; these have most of them.")
    return SearchResult(shown, (), _nothing([*map(typed.get, wanted)], [*map(typed.get, lacking)], near, kinds))


def _as_one_or_two(files: Sequence[SearchFile], wanted: Sequence[str]) -> list[SearchHit]:
    """Where all of the words are, also as two words of the glossary where they were typed as one: "allreduce"."""
    of_glossary = {
        word
        for file in files if file.name.endswith("glossary.md")
        for entry in file.entries()
        for word in word_list(entry.head)
    }  # fmt: skip
    parted = [one for word in wanted for one in (in_two(word, of_glossary) or [word])]
    hits = having(files, wanted)
    if parted != list(wanted):
        hits = sorted([*having(files, parted), *hits], key=lambda hit: -hit.score)
    return hits


class _Known:
    """The words of the texts for learners, made when they are first asked for."""

    def __init__(self, files: Iterable[SearchFile]) -> None:
        self._files = [file for file in files if not file.name.startswith("course_lib/")]
        self._typed: set[str] | None = None

    @property
    def typed(self) -> set[str]:
        if self._typed is None:
            entries = (entry for file in self._files for entry in file.entries())
            self._typed = set(as_typed(" ".join(f"{entry.head} {entry.text}" for entry in entries)))
            self._compared = set(word_list(" ".join(self._typed)))
        return self._typed

    def has(self, word: str) -> bool:
        return bool(self.typed) and any(one.startswith(word) for one in self._compared)


def _wanted(words: str) -> list[str]:
    if not isinstance(words, str):
        raise ValueError(f'{words!r} is no text to look for; give words, as in find("reduce-scatter").')
    if len(words) > _MOST_LETTERS:
        raise ValueError(f"{len(words):,} letters are too many to look for; give at most {_MOST_LETTERS:,}.")
    wanted = list(dict.fromkeys(word_list(words)))
    if not wanted:
        given = f"{one_line(words, 40)!r} has no letter or digit" if words.strip() else "there is no word to look for"
        raise ValueError(f"{given}; give words, as in `course find reduce-scatter`.")
    return wanted


def _check_kinds(kinds: Sequence[str]) -> None:
    wrong = [kind for kind in kinds if kind not in KINDS.values()]
    if wrong:
        near = nearest(str(wrong[0]), KINDS.values(), 1)
        guess = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"{one_line(wrong[0], 40)!r} is nothing to search in; there is {and_list([*KINDS.values()])}.{guess}"
        )


def _of_kinds(hits: Sequence[SearchHit], kinds: Sequence[str]) -> tuple[SearchHit, ...]:
    return tuple(by_place(hit for hit in hits if not kinds or KINDS[hit.entry.kind] in kinds))


def _quoted(words: Iterable[object]) -> str:
    return and_list([repr(one_line(word, 40)) for word in words])


def _words_there_are(near: dict[str, list[str]]) -> str:
    best = list(dict.fromkeys(one for found in near.values() for one in found))
    return f"word there is {best[0]}" if len(best) == 1 else f"words there are {and_list(best)}"


def _nothing(
    wanted: Sequence[object], lacking: Sequence[object], near: dict[str, list[str]], kinds: Sequence[str]
) -> str:
    where = f" in {and_list(kinds)}" if kinds else ""
    if not lacking:
        return f"No single place{where} has all of {_quoted(wanted)}. Leave out a word."
    found = [one for words in near.values() for one in words]
    if not found:
        return f"Nothing{where} has {_quoted(lacking)}, nor a word like it. `notebooks/glossary.md` lists the words."
    return f"Nothing{where} has {_quoted(lacking)}. The nearest {_words_there_are(near)}."
