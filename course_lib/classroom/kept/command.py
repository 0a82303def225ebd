"""``course class mine FOLDER``: which functions of their own learners have kept, when each passed, and as what.

FOLDER is where the class shares (`course class share`), a COURSE_HOME, a folder of several, or one learner's `mine`.
Where only progress is shared there is no code, so the list has names and dates alone. Where the packages themselves lie
below FOLDER, it also says of each function whether its file is as it passed, by the record beside it:

    course class mine drop                              who has kept what
    course class mine homes --source ring_all_reduce    the text of everybody's ring

Files are read as text. Nothing of a learner's runs here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.base.foreign_text import one_line

if TYPE_CHECKING:
    from course_lib.classroom.board.read_shared import Learner
    from course_lib.classroom.kept.packages import FoundPackage

__all__ = ["main"]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course class mine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="where the class shares or works")
    parser.add_argument("--source", default="", metavar="NAME", help="the text of this function, or of this exercise")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Print the list; 2 for what cannot be asked."""
    wish = _options(argv)
    from course_lib.classroom.board.read_shared import SharedReader
    from course_lib.classroom.kept.packages import packages_in
    from course_lib.mine.table import entry_of

    try:
        name = entry_of(wish.source).name if wish.source else ""
        packages = packages_in(wish.folders)
        gathered = SharedReader(wish.folders).gather()
    except ValueError as error:
        print(f"course class mine: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    lines = _sources(packages, name) if name else [*_recorded(gathered.learners), *_found(packages)]
    print("\n".join(lines) if lines else "Nobody has kept a function of their own there yet.")
    return 0


def _recorded(learners: Sequence[Learner]) -> list[str]:
    """By the records: who, which function, when it passed first and last, and in how many checks."""
    from course_lib.mine.table import ENTRIES

    rows = [["who", "function", "lesson", "kept since", "last passed", "times"]]
    for one in learners:
        for entry in ENTRIES:
            times = [
                str(event.get("time", ""))
                for event in one.events
                if event["event"] == "kept" and event["name"] == entry.exercise
            ]
            if times:
                since, last = min(times)[:10], max(times)[:10]
                rows.append([one.label, f"mine.{entry.name}", entry.exercise, since, last, str(len(times))])
    return _table(rows)


def _found(packages: Sequence[FoundPackage]) -> list[str]:
    rows = [["folder", "function", "lesson", "passed on", "the file now"]]
    for package in packages:
        for one in package.functions:
            when = one_line(one.when)[:10] or "-"
            rows.append([package.place, f"mine.{one.entry.name}", one.entry.exercise, when, one_line(one.state)])
    return _table(rows)


def _sources(packages: Sequence[FoundPackage], name: str) -> list[str]:
    from course_lib.classroom.kept.packages import text_lines

    lines = []
    for package in packages:
        for one in package.functions:
            if one.entry.name == name:
                head = f"== {package.place}: mine.{name}, {one_line(one.state)}"
                lines += [head, "", *(f"    {line}".rstrip() for line in text_lines(one.source)), ""]
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns and an empty line behind; nothing where there is no row but the first."""
    if len(rows) < 2:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [*("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows), ""]
