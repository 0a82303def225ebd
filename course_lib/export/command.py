"""``course export``: your notebooks as they stand, with what you predicted and passed, as one page of HTML.

The page holds the notebooks that you have worked on, their pictures and formulas, and a first page of your progress. It
opens in any browser, without a network, and no script runs in it. Interactive parts are shown as text.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from course_lib.base.foreign_text import one_line

__all__ = ["main"]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="some lessons, as 04 or 04a (default: all)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: my_work_DATE.html in this folder)")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="the folder of your notebooks, if not this one")
    parser.add_argument("--all", action="store_true", help="notebooks that you have not begun, too")
    parser.add_argument("--replace", action="store_true", help="overwrite a page that exists")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Write the page and say where it is."""
    wish = _options(argv)
    out = wish.out or Path(f"my_work_{datetime.now():%Y-%m-%d}.html")
    try:
        _need_place(out, replace=wish.replace)
        return _export(wish, out)
    except ValueError as error:
        print(f"course export: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    except OSError as error:
        why = error.strerror or type(error).__name__
        print(f"course export: {error.filename or out}: {why}. Nothing was written.", file=sys.stderr)
        return 1


def _need_place(out: Path, *, replace: bool) -> None:
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}; make it first, or name another one by --out")
    if out.is_dir():
        raise ValueError(f"{out} is a folder; name a file, such as {out / 'my_work.html'}")
    if out.exists() and not replace:
        raise ValueError(
            f"{out} exists, and the command does not overwrite it. --out names another page, --replace overwrites "
            "this one"
        )
    if out.exists() and out.suffix not in (".html", ".htm"):
        raise ValueError(f"--replace overwrites pages only, and {out} does not end in .html")


def _export(wish: argparse.Namespace, out: Path) -> int:
    from course_lib.export.page import page_of
    from course_lib.export.work import work_in  # with nbformat, which --help does without

    work = work_in(wish.folder, wish.lessons, everything=wish.all)
    for name, why in work.skipped:
        print(f"Left out {one_line(name)}: {one_line(why)}.", file=sys.stderr)
    if not work.notebooks:
        raise ValueError(
            f"no notebook in {work.folder} has been worked on yet{_in(wish.lessons)}; --all takes them as they are"
        )
    count = len(work.notebooks)
    print(f"Making one page of {count} notebook{'s' * (count != 1)} from {work.folder}.")
    page = page_of(work, on=f"{datetime.now():%d %B %Y}")
    _write(out, page, replace=wish.replace)
    print(f"{out}: {len(page.encode()) / 2**20:.1f} MiB. It opens in any browser, without a network.")
    return 0


def _in(lessons: Sequence[str]) -> str:
    return f" of {', '.join(lessons)}" if lessons else ""


def _write(out: Path, text: str, *, replace: bool) -> None:
    """The whole page, or nothing: what was there stays until the new one is written."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".html", dir=out.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o600)  # the learner's own; whom to show it to is theirs to say
        if replace:
            os.replace(name, out)
        else:
            _take_free_name(name, out)
    finally:
        if os.path.exists(name):
            os.unlink(name)


def _take_free_name(name: str, out: Path) -> None:
    """Give the file its name, unless another program has taken that meanwhile."""
    try:
        os.link(name, out)
    except FileExistsError:
        raise ValueError(
            f"{out} appeared meanwhile, and the command does not overwrite it. Name another by --out"
        ) from None
    except OSError:  # a file system without links
        if out.exists():
            raise
        os.replace(name, out)
