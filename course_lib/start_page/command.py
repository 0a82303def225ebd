"""The command line of `course start`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.base.foreign_text import one_line

__all__ = ["main"]

_DESCRIPTION = """\
Your start page: what you have done, what comes next and why, and the minutes left on your path. It also lists
missed questions that are due again, your own library, and builds that you have passed. It reads your progress on this
machine.

In a notebook: from course_lib import start; start()."""


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course start", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "part", nargs="?", default="", metavar="PART", help="as 04d: what it builds on, and how far you are"
    )
    parser.add_argument("--path", metavar="NAME", help="a path of docs/paths.md to take from now on")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--review", action="store_true", help="ask the missed questions that are due today")
    what.add_argument("--placement", action="store_true", help="at most 20 questions: which parts you can skip")
    what.add_argument("--certificate", metavar="BUILD", help="write a page of a build that has passed, as 04.ddp")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where that page goes; build-04.ddp.html without")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Show the page, or ask; 2 for a path or a build that there is not, 1 where a page cannot be written."""
    wish = _options(argv)
    try:
        return _run(wish)
    except ValueError as error:
        print(f"course start: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"course start: {error.filename}: {error.strerror or error}. Nothing was written.", file=sys.stderr)
        return 1


def _run(wish: argparse.Namespace) -> int:
    if wish.out is not None and wish.certificate is None:
        raise ValueError("--out names the page of --certificate, and there is none; leave it out")
    if wish.part and (wish.review or wish.placement or wish.certificate is not None):
        raise ValueError(f"{wish.part} asks what that part builds on; leave out the part, or the other option")
    if wish.path is not None:
        from course_lib.start_page.chosen_path import choose_path

        print(f"Your path is now {choose_path(wish.path).time!r}.\n")
    from course_lib.learn.records.store import store
    from course_lib.start_page import page
    from course_lib.start_page.certificate import write_certificate
    from course_lib.start_page.terminal import ask_in_terminal

    if wish.certificate is not None:
        print(f"{write_certificate(wish.certificate, store().read(), wish.out)} opens in any browser.")
    elif wish.placement or wish.review:
        if not ask_in_terminal(page.placement_of() if wish.placement else page.review_of()):
            print("Stopped. What you have answered is kept." if wish.review else "Stopped. Nothing is kept.")
    else:
        print(page.part_page(wish.part) if wish.part else page.start_page())
    return 0
