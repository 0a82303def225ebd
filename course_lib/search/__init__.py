"""``course find WORDS`` and ``find("WORDS")``: where the course speaks of something.

Searched are lessons (the text of their pages), the tour, the glossary, `docs/`, the docstrings of the library, and
sentences that the library says. No answer is: code of a page, solutions, reveals, quizzes, checks with their hints and
messages, trials of claims, and pages for maintainers and for who teaches a lesson are left out (``sources.py``).

In the order to read:

- ``words.py``: words as they are compared: `reduce-scatter`, `reduce_scatter` and `Reduce scatter` are the same
- ``entry.py``: one text that can be found, and a place where it was
- ``page_texts.py``: markdown as entries, heading by heading: lessons, glossary, docs
- ``code_texts.py``: Python files as entries: docstrings of public names, and sentences that are said
- ``sources.py``: which files are searched, and which hold answers and are not
- ``ranking.py``: which entries have the words, the best first
- ``find.py``: a search with what to say where nothing is found
- ``place_texts.py``: the places as text for a terminal
- ``shown.py``: ``find``, which shows the places as a table with links to notebooks
- ``command.py``: the command line of `course find`
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.lazy import loads_when_used

__all__ = ["FoundPlaces", "find", "main", "search"]
__getattr__, __dir__ = loads_when_used(__name__, {"FoundPlaces": "shown", "find": "shown", "search": "find"})


def main(argv: Sequence[str]) -> int:
    """Run `course find` with these words: 0 where something is found, 1 where nothing is, 2 for no search."""
    from course_lib.search import command

    return command.main(argv)
