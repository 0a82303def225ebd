"""The board as text, for the terminal: the same tables, and which files were left out."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.classroom.board.board_data import ClassBoard
from course_lib.classroom.board.charts import Chart

__all__ = ["board_text"]

_BAR = 30
_WIDEST = 44
_SIGNS = {"measured": "<- the run", "model": "<- the cost model"}


def board_text(board: ClassBoard) -> str:
    """Everything that the page has, in lines."""
    lines = [f"The class: {board.title}. {board.learners} share their progress."]
    lines += [line for chart in board.charts for line in _chart(chart)]
    lines += _table(
        ["part", "here", "begun", "through", "who"],
        [
            [
                f"{one.place} {one.short_title}",
                str(len(one.here)),
                str(one.begun),
                "-" if one.through is None else str(one.through),
                ", ".join(one.here),
            ]
            for one in board.places
        ],
    )
    lines += _table(
        ["check", "not passed", "passed", "tries", "hints", "solution"],
        [
            [one.name, *map(str, (one.held_up, one.passed, f"{one.tries:g}", one.hinted, one.solved))]
            for one in board.checks
        ],
    )
    lines += _table(
        ["named mistake", "of", "met by", "times"],
        [[one.words, one.check, str(one.learners), str(one.times)] for one in board.mistakes],
    )
    lines += _table(
        ["question, covered", "part", "predicted", "seen"],
        [[name, place, str(predicted), str(seen)] for name, place, predicted, seen in board.waiting],
    )
    lines += ["", *(f"{name}: nobody has predicted it yet." for name in board.unknown)] if board.unknown else []
    told = [f"{place}: {why}." for place, why in board.half]
    told += [f"Left out {place}: {why}." for place, why in board.skipped]
    return "\n".join([*lines, "", *told] if told else lines)


def _chart(chart: Chart) -> list[str]:
    most = max((row.count for row in chart.rows), default=0) or 1
    wide = min(max((len(row.label) for row in chart.rows), default=0), _WIDEST)
    lines = ["", f"{chart.name}  {chart.question}".rstrip()]
    for row in chart.rows:
        bar = "█" * round(_BAR * row.count / most)
        signs = " ".join(_SIGNS[mark] for mark in row.marks)
        lines.append(f"  {_cut(row.label, wide):>{wide}}  {bar} {row.count or ''} {signs}".rstrip())
    return [*lines, *(f"  {sentence}" for sentence in chart.sentences)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns below an empty line; nothing where there is no row. The last column is as long as it is."""
    if not rows:
        return []
    every = [list(head), *([_cut(cell, _WIDEST) for cell in row[:-1]] + [row[-1]] for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in every]
    return ["", *text]
