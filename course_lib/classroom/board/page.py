"""The board as one page for a projector: large, light or dark, nothing beside it, readable by keyboard and by ear."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.html import templates
from course_lib.classroom.board.board_data import ClassBoard
from course_lib.classroom.board.charts import ChartRow
from course_lib.classroom.board.histogram import view_of
from course_lib.learn.checks.lesson_index import title_of_check

__all__ = ["MARK", "board_page"]

MARK = '<meta name="generator" content="course class board">'
"""By which a page is known as one that may be written over."""

_fill = templates(__file__)
_MOST_LINES = 12


def board_page(board: ClassBoard, *, drawn_at: str, refresh_s: int = 0) -> str:
    """The whole page. ``drawn_at`` says when, in words; with ``refresh_s`` the browser loads it again and again."""
    people = "1 learner shares" if board.learners == 1 else f"{board.learners} learners share"
    told = f"{people} their progress. Drawn {drawn_at}" + (f", again every {refresh_s} s." if refresh_s else ".")
    return _fill(
        "board.html",
        mark=MARK,
        refresh_s=refresh_s,
        title=f"The class: {board.title}",
        told=told,
        is_empty=not board.learners,
        charts=[view_of(chart) for chart in board.charts],
        sections=[_where(board), _checks(board), _mistakes(board)],
        covered=[ChartRow(name, predicted) for name, _, predicted, _ in board.waiting],
        unknown=board.unknown,
        left_out=_left_out(board),
    )


@dataclass(frozen=True)
class BoardRow:
    """A line of a section: a name with more words behind it, a bar, numbers as text, and a text below all columns."""

    name: str
    title: str
    count: int
    numbers: tuple[str, ...]
    below: str = ""


@dataclass(frozen=True)
class BoardSection:
    """Lines under a title, or the sentence ``if_none``; ``more`` is the number of those that are not shown."""

    title: str
    head: tuple[str, ...]
    caption: str
    if_none: str
    lines: list[BoardRow]
    more: int = 0


def _where(board: ClassBoard) -> BoardSection:
    head = ("part", "here now", "have begun", "passed every check")
    lines = [
        BoardRow(
            line.place,
            line.short_title,
            len(line.here),
            (str(line.begun), "–" if line.through is None else str(line.through)),
            below=" · ".join(line.here),
        )
        for line in board.places
    ]
    return BoardSection("Who is where", head, "Who is where", "Nobody has begun here yet.", lines)


def _checks(board: ClassBoard) -> BoardSection:
    head = ("check", "tried, not passed", "passed", "tries (median)", "had hints / solution")
    lines = [
        BoardRow(
            line.name,
            title_of_check(line.name),
            line.held_up,
            (f"{line.passed} of {line.tried}", f"{line.tries:g}", f"{line.hinted} / {line.solved}"),
        )
        for line in board.checks[:_MOST_LINES]
    ]
    caption, none = "Checks, by how many they hold up", "No check has been tried yet."
    return BoardSection("What holds up", head, caption, none, lines, len(board.checks) - _MOST_LINES)


def _mistakes(board: ClassBoard) -> BoardSection:
    head, none = ("mistake", "met by", "times"), "None has been met yet."
    shown = board.mistakes[:_MOST_LINES]
    lines = [BoardRow(line.words, line.check, line.learners, (str(line.times),)) for line in shown]
    caption = "Named mistakes, by how many met them"
    return BoardSection("Named mistakes", head, caption, none, lines, len(board.mistakes) - _MOST_LINES)


def _left_out(board: ClassBoard) -> str:
    """How many files, and not which: a file's name may say whose it is. The terminal names them."""
    told = []
    if board.half:
        files = (
            "1 file counts as far as it" if len(board.half) == 1 else f"{len(board.half)} files count as far as they"
        )
        told.append(f"{files} could be read.")
    if board.skipped:
        files = "1 file was" if len(board.skipped) == 1 else f"{len(board.skipped)} files were"
        told.append(f"{files} left out; the terminal says which, and why.")
    return " ".join(told)
