"""The options of ``course test portable``, and all of its runs one after another."""

from __future__ import annotations

import argparse
import datetime
import itertools
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from course_lib.authoring.testing.portable import environments, report, trial
from course_lib.authoring.testing.portable.environments import NEWEST, PINNED, Environment, NotMadeError
from course_lib.authoring.testing.portable.kinds import KINDS, chosen_kinds, flags, lacking
from course_lib.authoring.testing.portable.report import Found
from course_lib.authoring.testing.portable.trial import Combination

__all__ = ["combinations", "main"]

_THREADS = (1, 2)
LeftOut = list[tuple[str, str]]


def main(argv: Sequence[str], *, root: Path) -> int:
    """Run what the options ask for: 0 when no cell differs, 1 when one does, 2 for options that cannot be."""
    options = _parser().parse_args(argv)
    left_out: LeftOut = []
    try:
        notebooks = trial.notebooks_of(root, options.lesson)
        if not notebooks:
            raise ValueError(f"{root / trial.FOLDER} holds no notebook, so nothing is proved. Run `course build`.")
        with ExitStack() as stack:
            folder = options.environments or stack.enter_context(tempfile.TemporaryDirectory(prefix="course-portable-"))
            others = _others(options, Path(folder), left_out, root=root)
            chosen = combinations(options, others, left_out)
            print(f"{len(notebooks)} notebooks\n\n{report.HEAD}", flush=True)
            all_found = [_found(one, notebooks, root=root) for one in chosen]
    except ValueError as error:
        print(f"course test portable: {error}", file=sys.stderr)
        return 2
    print(f"\n{report.table(all_found, left_out)}")
    if options.json:
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        command = shlex.join(["course", "test", "portable", *_without_folders(argv)])
        report.write(Path(options.json), report.record(all_found, left_out, command=command, date=date))
    return 0 if all_found and all(found.is_well for found in all_found) else 1


def combinations(
    options: argparse.Namespace, others: Iterator[Environment] | Sequence[Environment], left_out: LeftOut
) -> Iterator[Combination]:
    """Each kind of processor with each number of threads by this Python; others with the processor as it is.

    Where kinds or numbers of threads are asked for, the others get these too. ``left_out`` grows by what cannot be.
    """
    kinds, has = [], flags()
    for kind in chosen_kinds(options.processor):
        why = lacking(kind, has)
        if why:
            left_out.append((f"processor {kind.name}", why))
        else:
            kinds.append(kind)
    threads = options.threads or _THREADS
    if not options.python or "this" in options.python:
        this = environments.this_environment()
        if not options.torch or PINNED in options.torch:
            yield from (Combination(kind, number, this) for kind, number in itertools.product(kinds, threads))
    kinds = kinds if options.processor else [KINDS["own"]]
    threads = options.threads or _THREADS[:1]
    for other in others:
        yield from (Combination(kind, number, other) for kind, number in itertools.product(kinds, threads))


def _others(options: argparse.Namespace, folder: Path, left_out: LeftOut, *, root: Path) -> Iterator[Environment]:
    """Environments of other Pythons with the pinned torch, and of this one with others; made when they are needed."""
    versions = options.torch or [PINNED, NEWEST]
    pythons, missing = environments.found_pythons(options.python)
    left_out.extend(missing)
    with_this = not options.python or "this" in options.python
    wanted = [(python, torch) for python in pythons for torch in (options.torch or [PINNED])]
    wanted += [(sys.executable, torch) for torch in versions if torch != PINNED] if with_this else []
    for python, torch in wanted:
        began_s = time.monotonic()
        try:
            made = environments.make(folder, python, torch, root=root)
        except NotMadeError as error:
            left_out.append((f"{Path(python).name} with torch {torch}", str(error)))
            continue
        print(f"({Path(python).name} with torch {torch}: {time.monotonic() - began_s:.0f} s)", flush=True)
        yield made


def _found(combination: Combination, notebooks: Sequence[str], *, root: Path) -> Found:
    try:
        found = Found(combination, trial.try_one(combination, notebooks, root=root))
    except trial.Unfinished as error:
        found = Found(combination, None, str(error))
    print(report.row(found), flush=True)
    return found


def _without_folders(argv: Sequence[str]) -> list[str]:
    """The options for a record: those that name files of this machine are of no use to others."""
    kept, words = [], iter(argv)
    for word in words:
        if word in ("--json", "--environments"):
            next(words, None)
        elif not word.startswith(("--json=", "--environments=")):
            kept.append(word if "/" not in word else Path(word).name)
    return kept


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course test portable",
        description="Run the solved notebooks in other arithmetic, and say which cells differ. Each option may be "
        "given several times. Without any: all kinds of processor that this one can be, one and two threads for each "
        "rank; and, with the processor as it is, every other Python on the PATH and the newest torch.",
    )
    many = {"action": "append", "default": []}
    titles = "; ".join(f"{kind.name}: {kind.title}" for kind in KINDS.values())
    parser.add_argument("--processor", choices=[*KINDS], help=titles, **many)
    parser.add_argument("--threads", type=_whole, metavar="N", help="threads of each rank", **many)
    parser.add_argument("--python", metavar="VERSION", help="such as 3.13, a path, or `this`", **many)
    parser.add_argument("--torch", metavar="VERSION", help=f"such as 2.14.1, `{PINNED}` or `{NEWEST}`", **many)
    parser.add_argument("--lesson", metavar="NN", help="of all lessons, these alone: 05, or 05e", **many)
    parser.add_argument("--environments", metavar="FOLDER", help="keep what is installed here, and use it again")
    parser.add_argument("--json", metavar="FILE", help="keep what was found here")
    return parser


def _whole(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads; it goes from 1 to 64")
    return number
