"""One of some names, by itself or by words that it alone has."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from course_lib.base.foreign_text import one_line

__all__ = ["chosen_name"]


def chosen_name(words: str, names: Sequence[str], *, what: str) -> str:
    """The name that was meant, in whatever capitals. Raises ``ValueError`` with all names, and the nearest.

    >>> chosen_name("hardware", ["You choose hardware", "You teach"], what="path")
    'You choose hardware'
    """
    wanted = " ".join(str(words).split()).casefold()
    having = [name for name in names if wanted and wanted in name.casefold()]
    same = [name for name in having if name.casefold() == wanted]
    if same or len(having) == 1:
        return (same or having)[0]
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.4)
    guess = f" The nearest is {folded[near[0]]!r}." if near else ""
    raise ValueError(f"there is no {what} {one_line(words, 60)!r}; there are {', '.join(map(repr, names))}.{guess}")
