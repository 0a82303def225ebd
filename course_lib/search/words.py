"""Words as they are compared: `reduce-scatter`, `reduce_scatter`, `Reduce scatter` and `ReduceScatter` are the same."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

__all__ = ["as_typed", "in_two", "nearest", "raw_part", "word_list"]

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[^\W_aeious])s$|(?<=[^\W_]{2}[aeou])s$")
_PLURAL_ES = re.compile(r"(?<=ch|sh|ss)es$|(?<=[xz])es$")
_NEAR = 0.72


def as_typed(text: str) -> list[str]:
    """The words of a text in small letters, with their endings: what nearest words are told from."""
    return [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))]


def word_list(text: str) -> list[str]:
    """The words of a text, in order, as they are compared: small letters, without the ending of a plural.

    >>> word_list("Two ReduceScatters, copies of batches")
    ['two', 'reduce', 'scatter', 'copy', 'of', 'batch']
    """
    return [_singular(word) for word in as_typed(text)]


def _singular(word: str) -> str:
    if len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return _PLURAL_ES.sub("", word) if _PLURAL_ES.search(word) else _PLURAL.sub("", word)


def raw_part(word: str) -> str:
    """What of a compared word stands in every text that has it, whatever its ending: "cop" of "copy"."""
    return word[:-1] if word.endswith("y") and len(word) > 2 else word


def in_two(word: str, known: Collection[str]) -> list[str]:
    """The two known words that were typed as one, as in "allreduce"; an empty list where it is none such."""
    cuts = range(2, len(word) - 1)
    return next(([word[:cut], word[cut:]] for cut in cuts if word[:cut] in known and word[cut:] in known), [])


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known words that look most like this one, the best first; none where all look different."""
    about = [other for other in known if abs(len(other) - len(word)) <= 2 and len(other) > 2]
    return difflib.get_close_matches(word, sorted(about), n=count, cutoff=_NEAR)
