"""``course class board FOLDER``: one page for the projector, of everybody who shares their progress in FOLDER.

FOLDER is where learners share (`course class share FOLDER`), or a COURSE_HOME, or a folder of several. The page says
who is where, what holds people up, and what they predicted. Nobody's name is on it unless they gave one, and nothing
that a question's run gives before you reveal it:

    course class board drop --lesson 04a --watch       the page, and again every 30 s
    course class board drop --show 04.bytes            everybody's predictions of one question
    course class board drop --reveal 04.bytes          beside what was measured, and the model's line
    course class board drop --after class.md           a page to fill in after the class: minutes, where people stuck

While it watches, type one of these and Enter:
    show 04.bytes    reveal 04.bytes    hide 04.bytes    lesson 04b    quit
A lesson (04), a part of one (04a) and "all" may stand in the place of a question. What was asked for last is on top.

On a machine without a screen, put the page beside your own lessons (--out ~/one-model-many-gpus/class_board.html), type
`course lab`, and take "Open in New Browser Tab" from the page's menu (right click) in the list of files. Nothing leaves
this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from course_lib.base.foreign_text import one_line

if TYPE_CHECKING:
    from course_lib.classroom.board.board_data import Wish
    from course_lib.classroom.board.read_shared import SharedReader
    from course_lib.learn.checks.lesson_index import LessonIndex

__all__ = ["main"]

_EVERY_S = 30
_LONGEST = 2000  # signs of a sentence about what is wrong
_OUT = "class_board.html"
_WORDS = "show NAME, reveal NAME, hide NAME, lesson 04b (or lesson all), quit"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course class board", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="where the class shares")
    parser.add_argument("--lesson", default="", metavar="04a", help="one lesson, or one part of one")
    parser.add_argument("--show", action="append", default=[], metavar="NAME", help="the predictions of a question")
    parser.add_argument(
        "--reveal",
        action="append",
        default=[],
        metavar="NAME",
        help="the predictions of a question, and the measured values",
    )
    parser.add_argument("--out", type=Path, default=Path(_OUT), metavar="FILE", help=f"the page; {_OUT} by default")
    parser.add_argument("--watch", action="store_true", help="draw it again every 30 s")
    parser.add_argument(
        "--after", type=Path, metavar="FILE", help="write a page to fill in after a class, and no board"
    )
    parser.add_argument(
        "--day", type=date.fromisoformat, metavar="2026-11-23", help="the day of --after (default: the last day)"
    )
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Draw the board once, or until it is stopped; 1 where it cannot be written, 2 for what cannot be asked."""
    asked = _options(argv)
    # With the lessons' rooms, which --help does without.
    from course_lib.classroom.board.board_data import Wish
    from course_lib.classroom.board.read_shared import SharedReader
    from course_lib.learn.checks.lesson_index import places

    known = places()
    try:
        if asked.after is not None or asked.day is not None:
            print(_write_after(asked, known))
            return 0
        wish = Wish(known.need(asked.lesson) if asked.lesson else "", set(asked.show), set(asked.reveal))
        _need_place(asked.out)
        gatherer = SharedReader(asked.folders)
        draw = lambda: _draw(gatherer, known, wish, asked.out, _EVERY_S if asked.watch else 0)  # noqa: E731
        print(draw())
        print(f"\nThe page is {asked.out}; open it in a browser.", flush=True)
        if asked.watch:
            print(f"Drawn again every {_EVERY_S} s. {_WORDS}", flush=True)
            _watch(draw, wish, known, _lines(sys.stdin))
    except ValueError as error:
        print(f"course class board: {one_line(error, _LONGEST)}", file=sys.stderr)
        return 2
    except OSError as error:
        why = error.strerror or type(error).__name__
        print(
            f"course class board: {one_line(f'{error.filename or asked.out}: {why}', _LONGEST)}",
            file=sys.stderr,
        )
        return 1
    return 0


def _write_after(asked: argparse.Namespace, known: LessonIndex) -> str:
    """Write the page to fill in, over nothing; a sentence that says where. Raises ``ValueError``."""
    from course_lib.classroom.board.after_class import after_class
    from course_lib.classroom.board.read_shared import SharedReader

    out = asked.after
    if out is None:
        raise ValueError("--day belongs to --after, and --after is missing; leave out --day")
    if asked.watch or asked.show or asked.reveal:
        raise ValueError("--after writes a page to fill in, and draws no board; leave out --watch, --show and --reveal")
    lesson = known.need(asked.lesson) if asked.lesson else ""
    text = after_class(SharedReader(asked.folders).gather().learners, known, lesson=lesson, day=asked.day)
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}; make it first, or name another file")
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{out} exists, and the command overwrites no file; name another file") from None
    return f"{out} is a page to fill in. It holds no name."


def _need_place(out: Path) -> None:
    """Raise ``ValueError`` where the page cannot go, or where it would take the place of something else."""
    from course_lib.classroom.board.page import MARK

    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}; make it first, or name another one by --out")
    if out.is_symlink() or (out.exists() and not out.is_file()):
        raise ValueError(f"{out} is no plain file; name another one by --out")
    if out.exists() and MARK not in _beginning(out):
        raise ValueError(f"{out} exists and is no board, and the command does not overwrite it. Name another by --out")


def _beginning(page: Path) -> str:
    with page.open("rb") as file:
        return file.read(4000).decode("utf-8", "replace")


def _draw(gatherer: SharedReader, known: LessonIndex, wish: Wish, out: Path, refresh_s: int) -> str:
    """Write the page anew, and return the board as text."""
    from course_lib.classroom.board.board_data import board_of
    from course_lib.classroom.board.page import board_page
    from course_lib.classroom.board.text import board_text

    board = board_of(gatherer.gather(), known, wish)
    page = board_page(board, drawn_at=datetime.now().strftime("%H:%M"), refresh_s=refresh_s)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".html", dir=out.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(page)
    os.replace(name, out)  # at once: a browser that loads it meanwhile has the old page, or the new one
    return board_text(board)


def _lines(source: TextIO) -> queue.SimpleQueue[str | None]:
    """What is typed, line by line; None when there is no more."""
    typed: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):  # no terminal, or one that has gone
            for line in source if _is_in_front(source) else ():
                typed.put(line)
        typed.put(None)

    threading.Thread(target=read, daemon=True).start()
    return typed


def _is_in_front(source: TextIO) -> bool:
    """Whether it may be read: a job in the background that reads the terminal is stopped by the system."""
    if not source.isatty() or not hasattr(os, "tcgetpgrp"):
        return True
    return os.tcgetpgrp(source.fileno()) == os.getpgrp()


def _words_in(typed: queue.SimpleQueue[str | None]) -> Iterator[str]:
    """Lines as they come, and an empty one whenever the time to draw again has come."""
    is_open = True
    while True:
        try:
            line = typed.get(timeout=_EVERY_S) if is_open else None
        except queue.Empty:
            line = ""
        if line is None:  # nobody types any more, as where it runs in the background
            is_open = False
            time.sleep(_EVERY_S)
        yield line or ""


def _watch(draw: Callable[[], str], wish: Wish, known: LessonIndex, typed: queue.SimpleQueue[str | None]) -> None:
    for line in _words_in(typed):
        try:
            said = _obey(line.split(), wish, known)
        except ValueError as error:
            said = one_line(error, _LONGEST)
        if said == "quit":
            return
        try:
            text = draw()
        except (OSError, ValueError) as error:  # a folder that is away for a moment
            print(
                f"Not drawn this time: {one_line(error, _LONGEST)}. Trying again in {_EVERY_S} s.",
                file=sys.stderr,
            )
            continue
        if line.strip():
            print(said or text, flush=True)


def _obey(words: list[str], wish: Wish, known: LessonIndex) -> str:
    """Change the wish by what was typed; a sentence where the board as text says nothing of it. Raises ValueError."""
    match words:
        case [] | ["draw"]:
            return ""
        case ["quit" | "q" | "exit"]:
            return "quit"
        case ["lesson"] | ["lesson", "all"]:
            wish.lesson = ""
        case ["lesson", name]:
            wish.lesson = known.need(name)
        case ["show" | "reveal" as word, name]:
            getattr(wish, word).add(name)
            wish.latest = name
        case ["hide", "all"]:
            wish.show.clear()
            wish.reveal.clear()
        case ["hide", name]:
            if name not in wish.show | wish.reveal:
                raise ValueError(
                    f"{name} is not shown; there is {', '.join(sorted(wish.show | wish.reveal)) or 'nothing'}"
                )
            wish.show.discard(name)
            wish.reveal.discard(name)
        case _:
            raise ValueError(f"{' '.join(words)!r} is none of: {_WORDS}")
    return ""
