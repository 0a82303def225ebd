"""Which cells of a lesson a reader opens by hand: guesses, answers and solutions, told by the structure of the source.

* A cell with ``ask(`` is folded whole: it holds one reader's guess. The question stands in the text above it. (A cell
  with ``bet(`` stays: the claim stands in its output.)
* From an ``ask`` or ``bet`` to its ``reveal`` or ``settle``, what cells print is folded, and the last is the answer.
* Where the text ends with a question in bold that no ``ask`` takes up, the output of the cell below is folded.
* A cell with a solution shows what a learner gets; the solution is folded below it.

The tags are those of myst-nb (``hide-cell``, ``hide-output``), which makes closed ``<details>`` of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lessons.regions import has_region
from course_lib.lessons.source import Cell

__all__ = ["ANSWER", "GUESS", "RESULT", "SOLUTION", "Fold", "folds"]


@dataclass(frozen=True)
class Fold:
    """What is folded, by myst-nb's tag, and what the line says that opens it."""

    tag: str
    summary: str


GUESS = Fold("hide-cell", "One reader’s guess")
RESULT = Fold("hide-output", "What came out")
ANSWER = Fold("hide-output", "The answer")
SOLUTION = Fold("hide-cell", "A solution")

_CALL = re.compile(r"\b(?P<name>ask|bet|reveal|settle)\((?P<first>[^)]*)")
_QUESTION_LAST = re.compile(r"\*\*((?!\*\*).)+\?\*\*((?!\*\*).){0,100}\Z", re.DOTALL)


def folds(cells: Sequence[Cell]) -> dict[str, Fold]:
    """The fold of each cell that has one, by the cell's id."""
    found: dict[str, Fold] = {}
    asked: dict[str, int] = {}
    for index, cell in enumerate(cells):
        if not cell.is_code:
            continue
        calls = _calls(cell.text)
        if "ask" in calls:
            found[cell.id] = GUESS
        elif has_region(cell.text) and "bet" not in calls:
            found[cell.id] = SOLUTION
        elif index and not calls and _asks(cells[index - 1]) and not _ask_follows(cells[index:]):
            found[cell.id] = RESULT
        asked.update(dict.fromkeys(calls.get("ask", []) + calls.get("bet", []), index))
        for key in calls.get("reveal", []) + calls.get("settle", []):
            for between in cells[asked.pop(key, index) + 1 : index]:
                if between.is_code and not _keeps_its_place(between):
                    found.setdefault(between.id, RESULT)
            found[cell.id] = ANSWER
    return found


def _calls(text: str) -> dict[str, list[str]]:
    """The ids that ask, bet, reveal and settle are called with in a cell, by the name of the function."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    calls: dict[str, list[str]] = {}
    for call in _CALL.finditer(code):
        calls.setdefault(call["name"], []).extend(re.findall(r'"([^"]+)"', call["first"]))
    return calls


def _asks(cell: Cell) -> bool:
    return not cell.is_code and bool(_QUESTION_LAST.search(cell.text.rstrip()))


def _ask_follows(cells: Sequence[Cell]) -> bool:
    """The question above is put by a cell of its own, before any more text: what comes between are the givens."""
    below = itertools.takewhile(lambda cell: cell.is_code, cells)
    return any({"ask", "bet"} & _calls(cell.text).keys() for cell in below)


def _keeps_its_place(cell: Cell) -> bool:
    """A verdict on the reader's own work, and another question, are no answers."""
    return bool(_calls(cell.text)) or bool(re.search(r"^\s*\w* ?=? ?(check|quiz)\(", cell.text, re.MULTILINE))
