"""The command line of `course find`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from course_lib.search.entry import KINDS, MOST_SHOWN

__all__ = ["main"]

_DESCRIPTION = """\
Where the course speaks of something: in lessons, the glossary, docs/, the library and what it says.

All of the words have to be there; `reduce-scatter`, `reduce_scatter` and `Reduce scatter` are the same. A message that
you have met can be given whole, in quotes. Answers are not searched: no solution, hint, quiz or message of a check.
In a notebook: from course_lib import find; find("reduce-scatter")."""


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course find", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for")
    parser.add_argument(
        "--in", dest="kinds", action="append", default=[], metavar="PLACE", help=", ".join(KINDS.values())
    )
    parser.add_argument(
        "--most", type=int, default=MOST_SHOWN, metavar="N", help=f"places to show; {MOST_SHOWN} without"
    )
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Print the places; 0 where there are some, 1 where nothing is found, 2 for what is no search."""
    wish = _options(argv)
    from course_lib.search.find import search
    from course_lib.search.place_texts import as_text

    try:
        if wish.most < 1:
            raise ValueError(f"--most {wish.most} shows nothing; give a whole number, 1 or more.")
        found = search(" ".join(wish.words), kinds=wish.kinds)
    except ValueError as error:
        print(f"course find: {error}", file=sys.stderr)
        return 2
    print(as_text(found, wish.most), file=sys.stdout if found.hits else sys.stderr)
    if wish.most < len(found.hits):
        print(f"\n--most {min(100, len(found.hits))} shows more, --in lessons only those of lessons.")
    return 0 if found.hits else 1
