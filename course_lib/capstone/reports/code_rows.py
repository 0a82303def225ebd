"""Whose code ran in an attempt, as a table: each function of the learner's with its lines, and what stood in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from course_lib.base.text import columns
from course_lib.capstone.jobs.result import RanCode, Result
from course_lib.forms.show import Shown, panel, paragraph, table

__all__ = ["CODE_HEAD", "WhoseCode", "code_rows", "code_sentence", "whose_code"]

CODE_HEAD = ("whose", "function", "file", "lines that ran")
_MOST_ROWS = 40  # of a page: a strategy of the course's has many small functions


@dataclass(frozen=True, repr=False)
class WhoseCode(Shown):
    """A table of what ran, and a sentence above it."""

    sentence: str
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *columns([CODE_HEAD, *self.rows])]) if self.rows else self.sentence

    def _html(self) -> str:
        return panel(
            "info",
            "Whose code ran",
            paragraph(self.sentence) + table(list(CODE_HEAD), [list(row) for row in self.rows]),
        )


def whose_code(result: Result) -> WhoseCode:
    """What ran on the ranks of an attempt, by function: the learner's lines, the course's strategies, PyTorch's."""
    return WhoseCode(code_sentence(result.code), tuple(code_rows(result.code)))


def code_sentence(code: Sequence[RanCode]) -> str:
    """How much of a run was the learner's, and who stood in, in a sentence or two."""
    if not code:
        return "Nobody knows which code ran: the run did not come to its end."
    own = [one for one in code if one.whose == "yours"]
    lines = sum(len(one.lines) for one in own)
    said = f"{lines} lines of yours ran, in {len(own)} functions."
    others = [one for one in code if one.whose not in ("yours", "from a text")]
    for owner in dict.fromkeys(one.whose for one in others):
        theirs = [one for one in others if one.whose == owner]
        by = f", first in {theirs[0].called}" if theirs[0].called else ""
        said += f" It also called {len(theirs)} functions of strategies that are {owner}{by}."
    return said if others else f"{said} No strategy of the course's or of PyTorch's was called."


def code_rows(code: Sequence[RanCode]) -> list[tuple[str, ...]]:
    """A row for each function, those of the learner's with their lines."""
    rows: list[tuple[str, ...]] = []
    for one in code:
        ran = f"{_ranges(one.lines)} ({len(one.lines)} of {one.num_lines})" if one.whose == "yours" else "–"
        name = f"{one.name}, which does what {one.copy_of} does" if one.copy_of else one.name
        rows.append((one.whose, name, one.file, ran))
    more = len(rows) - _MOST_ROWS
    return rows if more <= 0 else [*rows[:_MOST_ROWS], ("", f"and {more} more", "", "")]


def _ranges(lines: Sequence[int]) -> str:
    """Numbers of lines: "12-18, 20"."""
    starts = [lines[0], *(after for before, after in pairwise(lines) if after > before + 1)] if lines else []
    ends = [*(before for before, after in pairwise(lines) if after > before + 1), lines[-1]] if lines else []
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(starts, ends, strict=True))
