"""The command line of `course mine`: what stands in the learner's own library, and the checks on it, again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.mine.listing import ListedFunction
    from course_lib.mine.table import LibraryEntry

__all__ = ["main"]

_DESCRIPTION = """\
Your own library: what you have built in the lessons, kept when its check passed, and what is still the course's.

A list reads your files as text and runs nothing. --check runs the checks of the lessons on what stands there now, each
build as far as it has come. What passes is in use again. Only what has passed a check of yours is ever run."""


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course mine", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a function or class, or of its exercise; all else")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="run the checks on what stands there now")
    what.add_argument("--source", action="store_true", help="show the text that stands there")
    what.add_argument("--measure", action="store_true", help="bytes, memory and time beside PyTorch's, on four ranks")
    what.add_argument("--pack", type=Path, metavar="FOLDER", help="make a folder that trains by it, without the course")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """0; 1 where a check does not pass, or nothing is there that was asked for; 2 for a name that no library has."""
    wish = _options(argv)
    from course_lib.mine.listing import listed
    from course_lib.mine.place import is_off, mine_folder
    from course_lib.mine.table import ENTRIES, entry_of

    try:
        entries = tuple(dict.fromkeys(map(entry_of, wish.names))) or ENTRIES
        if is_off():
            raise ValueError("nothing is kept of you here: COURSE_MINE or COURSE_PROGRESS says so")
        folder = mine_folder()
    except ValueError as error:
        print(f"course mine: {error}", file=sys.stderr)
        return 2
    if wish.pack is not None:
        return _pack(wish.pack, folder)
    if wish.measure:
        return _measure()
    found = [one for one in listed(folder) if one.entry in entries]
    if wish.check:
        return _check(found)
    if wish.source:
        return _show_source(found)
    _show(found, entries, folder)
    return 0


def _show(found: Sequence[ListedFunction], entries: Sequence[LibraryEntry], folder: Path) -> None:
    from course_lib.mine.place import shown_path

    there = {one.entry.name: one for one in found}
    lines = sum(_num_lines(one.source) for one in found)
    where = shown_path(folder)
    print(f"Your own library, {where}: {len(found)} of {len(entries)}, {lines} lines.\n")
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        one = there.get(entry.name)
        words = f"the course's, until {entry.exercise} has passed" if one is None else _state_words(one)
        print(f"  mine.{entry.name:<{width}}  {entry.says}\n  {'':<{width + 5}}  {words}")
    if any(not one.is_as_passed for one in found):
        print("\nWhere yours is not as it passed, lessons run on the course's. `course mine --check` checks it again.")


def _state_words(one: ListedFunction) -> str:
    from course_lib.mine.use import day_of

    when = f" on {day_of(one.when)}" if one.when else ""
    step = _step(one)
    passed = f"{step or one.entry.exercise}{when}"
    lines = f"{one.entry.file}, {_num_lines(one.source)} lines" if one.source else one.entry.file
    if one.is_as_passed:
        return f"{lines}, as it passed {passed}{_how_far(one.entry, step)}"
    return f"{lines}: {one.state}" + (f" ({one.entry.exercise}{when})" if when else "")


def _how_far(entry: LibraryEntry, step: str) -> str:
    from course_lib.mine.table import step_words

    return f", {words}" if (words := step_words(entry, step)) else ""


def _step(one: ListedFunction) -> str:
    from course_lib.mine.ledger import furthest_step

    return furthest_step(one.entry, one.digest) if one.digest else ""


def _num_lines(source: str) -> int:
    """Those with code or words on them."""
    return sum(bool(line.strip()) for line in source.splitlines())


def _check(found: Sequence[ListedFunction]) -> int:
    from course_lib.mine.again import check_again

    if not found:
        print("There is nothing of yours to check: no answer has been kept so far.", file=sys.stderr)
        return 1
    verdicts = [check_again(_step(one) or one.entry.name) for one in found]
    passed = sum(verdict.passed for verdict in verdicts)
    print(f"\n{passed} of {len(verdicts)} pass.")
    return 0 if passed == len(verdicts) else 1


def _measure() -> int:
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.mine.terminal.measure import NUM_RANKS, to_measure, training_beside

    ways, left_out = to_measure()
    if ways:
        with Cluster(NUM_RANKS) as cluster:
            print(cluster)
            for way, own in ways.items():
                training_beside(cluster, way, own)
    print(*left_out, sep="\n")
    return 0 if ways else 1


def _pack(to: Path, folder: Path) -> int:
    from course_lib.mine.terminal.folder import write_pack
    from course_lib.mine.terminal.pieces import packed

    try:
        pack = packed(folder)
        names = write_pack(to, pack)
    except ValueError as error:
        print(f"course mine: {error}", file=sys.stderr)
        return 1
    print(f"{to} holds {', '.join(names)}.")
    for sentence in pack.left_out:
        print(f"Left out is {sentence}")
    print(f"Try it there: torchrun --standalone --nproc-per-node 2 train.py --way {pack.ways[-1]}")
    return 0


def _show_source(found: Sequence[ListedFunction]) -> int:
    from course_lib.base.foreign_text import on_a_page

    texts = [f"# mine.{one.entry.name}: {one.state}\n\n{on_a_page(one.source)}" for one in found]
    print("\n\n".join(texts) if texts else "There is nothing of yours to show: no answer has been kept so far.")
    return 0 if texts else 1
