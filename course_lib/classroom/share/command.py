"""``course class share FOLDER``: copy your own progress into a folder of the instructor's; nothing else ever does.

What is copied: which checks you tried and passed, which named mistakes they told you of, what you predicted, which
hints you took, which answers are kept for later lessons, and when. What is not: your code, your notebooks, claims of
your own, and your name unless --name gives one. The instructor needs a folder in which you may write, for example
    mkdir class-drop; chmod 1733 class-drop
Everybody can then put a file there, nobody but its owner can list the folder, and nobody can change another's file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib.classroom.share import shared

__all__ = ["main"]

_EVERY_S = 30.0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course class share", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the instructor's folder")
    parser.add_argument("--name", metavar="ALIAS", help="what the board calls you; '' for a number again")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="copy again every 30 s, until Ctrl-C; before the first lesson as well",
    )
    parser.add_argument("--stop", action="store_true", help="take your file out of the folder again")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Share once, or until it is stopped; 1 where the file system refuses, 2 for what cannot be asked."""
    wish = _options(argv)
    try:
        if wish.stop:
            return _stop(wish.folder)
        who = _share_from_the_first_answer(wish) if wish.watch else _share(wish.folder, wish.name)
        print(f"Copied into {wish.folder}. The board calls you {_called(who)}; no code is in it.", flush=True)
        if not wish.watch:
            print("Run this again to bring it up to date; --watch does so every 30 s; --stop takes it back.")
        while wish.watch:
            time.sleep(_EVERY_S)
            _share_again(wish.folder)
    except _NotBegunError as error:
        print(f"course class share: {error}. Run this again then, or now with --watch.", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"course class share: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"course class share: {_reason(error, wish.folder)}", file=sys.stderr)
        return 1
    return 0


class _NotBegunError(ValueError):
    """There is nothing to share yet."""


def _share_from_the_first_answer(wish: argparse.Namespace) -> shared.Identity:
    """As ``_share``, for who begins to watch before the first lesson: it waits until there is something."""
    has_told = False
    while True:
        try:
            return _share(wish.folder, wish.name)
        except _NotBegunError as error:
            if not has_told:
                print(f"Nothing to copy so far: {error}. It is copied as soon as it is there.", flush=True)
            has_told = True
            time.sleep(_EVERY_S)


def _called(who: shared.Identity) -> str:
    return f"“{who.alias}”" if who.alias else f"number {shared.number_of(who.id)}"


def _reason(error: OSError, folder: Path) -> str:
    why = error.strerror or type(error).__name__
    return (
        f"nothing was shared: {error.filename or folder}: {why}. Ask your instructor for a folder in which you may "
        "write."
    )


def _own_events() -> tuple[Path, list[dict[str, Any]]]:
    """The learner's folder, and what is kept there. Raises ``ValueError`` where there is nothing to share."""
    from course_lib.base.paths import data_dir
    from course_lib.learn.records.store import parse  # not for --help: it brings the checks along

    try:
        folder = data_dir()
    except RuntimeError as error:
        raise ValueError(f"{error}; COURSE_HOME may name the folder of your progress") from None
    path = folder / "progress.jsonl"
    if not path.is_file():
        raise _NotBegunError(f"there is no progress yet in {path}; it begins with your first prediction or check")
    events, _ = parse(path.read_bytes())
    return folder, events


def _need_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name the one that your instructor has made for the class")


def _share(folder: Path, alias: str | None) -> shared.Identity:
    _need_folder(folder)
    home, events = _own_events()
    who = shared.identity(home, alias)
    shared.write(folder / shared.file_name(who), shared.text_of(who, events), mode=0o644)
    return who


def _share_again(folder: Path) -> None:
    """As before; what fails now may go well in half a minute."""
    try:
        _share(folder, None)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        print(f"Not copied this time: {why}. Trying again in {_EVERY_S:.0f} s.", file=sys.stderr)


def _stop(folder: Path) -> int:
    from course_lib.base.paths import data_dir

    _need_folder(folder)
    path = folder / shared.file_name(shared.identity(data_dir()))
    try:
        path.unlink()
    except FileNotFoundError:
        print(f"No file of yours is in {folder}.")
        return 0
    print(f"Taken out of {folder}. Your progress itself stays with you.")
    return 0
