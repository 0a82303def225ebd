"""A learner's own library: what has passed its check, kept as source, on which later lessons run.

``from course_lib import mine``: ``mine.ring_all_reduce`` is the learner's where 02.ring has passed and the file is as
it passed, else the course's; a line on the page says which. The files lie in the folder ``mine`` beside the lessons,
for the learner to read, change and import. Only what a check of this very learner has passed is ever run.

In the order to read:

- ``table.py``: which exercise gives which function, and in which file it stands
- ``courses.py``: the course's own functions under those names, which stand in for the learner's
- ``courses_of_cut_models.py``: its classes for the builds of lessons 07 to 12
- ``place.py``: where the folder is, and whether anything is kept
- ``source/``: A learner's functions as text: out of cells, into a file, and out of it again
- ``files.py``: that text written, and what it replaces set beside
- ``ledger.py``: the digests that this learner's checks have passed
- ``budget.py``: how much of a page's time a function may take
- ``own_class.py``: a class of the learner's, made as the course's is
- ``use.py``: whose function a name stands for now, and the line that says so
- ``run_both.py``: one run of the page by the course's and, where it is there, by the learner's
- ``keeping.py``: ``check`` of the lessons, which keeps what passes
- ``again.py``: the check on what stands in the file now
- ``listing.py``: the package as a list, for `course export` and for an instructor; text alone
- ``terminal/``: `course mine`: the library at a terminal, its checks again, and a folder that trains by it
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_TOOLS = {"beside": "run_both", "check_again": "again", "if_passed": "run_both", "mine_folder": "place"}


class _OwnLibrary(ModuleType):
    """This module; to ranks it is sent as the functions for which it stands in the notebook, the same for all."""

    def __reduce__(self) -> Any:
        from course_lib.mine.table import ENTRIES
        from course_lib.mine.use import SentLibrary, chosen

        choices = [chosen(entry) for entry in ENTRIES]
        return SentLibrary, ({one.entry.name: (one.function, one.line) for one in choices},)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _TOOLS:
        return getattr(importlib.import_module(f"{__name__}.{_TOOLS[name]}"), name)
    from course_lib.mine.table import ENTRIES
    from course_lib.mine.use import chosen, tell

    entry = next((entry for entry in ENTRIES if entry.name == name), None)
    if entry is None:
        offers = ", ".join(sorted([*_TOOLS, *(entry.name for entry in ENTRIES)]))
        raise AttributeError(f"course_lib.mine has no name {name!r}; it offers {offers}")
    choice = chosen(entry)  # each time anew: a check may have passed since
    tell(choice)
    return choice.function


def __dir__() -> list[str]:
    from course_lib.mine.table import ENTRIES

    return sorted([*_TOOLS, *(entry.name for entry in ENTRIES)])


sys.modules[__name__].__class__ = _OwnLibrary
