"""Tables of answers to the exercises, each with the verdict that it is to get: ``tests/answers/lesson_NN/NAME.py``.

A file is for one exercise. It is loaded as a learner's cell is executed: its functions belong to no module, travel to
ranks by value, and count as a person's code. It binds ``ROWS``, a list of :class:`Row`. What
several tables share stands one folder deeper, and comes by :func:`pieces`.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ["Row", "answer_files", "pieces", "rows_of"]

FOLDER = Path(__file__).parents[1] / "answers"


@dataclass(frozen=True, kw_only=True)
class Row:
    """An answer and what is to be said of it.

    ``verdict`` is the status, such as "passed", "not yet", "raised" or "forbidden"; ``mistake`` the name of the mistake
    ("" is none, ``None`` any). Each of ``words`` is to stand in the message or the evidence, and none of ``unsaid``.
    ``why`` tells why the answer is right or wrong, for who reads the table. ``long`` is tried with ``--long`` alone.
    """

    answer: Any
    verdict: str
    why: str
    mistake: str | None = None
    words: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    long: bool = False


def answer_files() -> Iterator[tuple[str, Path]]:
    """Each exercise that has a table, such as "07.sync", and where that is."""
    for path in sorted(FOLDER.glob("lesson_*/*.py")):
        yield f"{path.parent.name.removeprefix('lesson_')}.{path.stem.removeprefix('of_')}", path


def rows_of(path: Path) -> list[Row]:
    """The rows of a table, its code executed anew."""
    return list(_executed(path)["ROWS"])


@cache
def pieces(name: str) -> SimpleNamespace:
    """What a file binds that several tables share, such as "lesson_03/pieces/data_parallel.py"."""
    return SimpleNamespace(**_executed(FOLDER / name))


def _executed(path: Path) -> dict[str, Any]:
    """What this file binds, executed as a learner's cell is."""
    source = path.read_text(encoding="utf-8")
    filename = f"<answers of {path.parent.name}, {path.stem}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace
