"""What every benchmark has in common: ``--rounds`` and ``--json``, and a table that is opened, filled and kept.

A benchmark makes its parser with ``bench_parser``, adds what is its own, and fills the table of ``open_table``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.arguments import CrowdedWarning

__all__ = ["bench_parser", "count", "open_table"]


def bench_parser(name: str, about: str | None, *, rounds: int, of: str) -> argparse.ArgumentParser:
    """The parser of ``course bench name``; ``rounds`` is the default, and ``of`` says what a round is."""
    parser = argparse.ArgumentParser(prog=f"course bench {name}", description=about)
    parser.set_defaults(command=parser.prog)
    parser.add_argument("--rounds", type=count, default=rounds, help=f"{of} (default {rounds})")
    parser.add_argument("--json", type=Path, help="also keep the samples in this file")
    return parser


def count(text: str) -> int:
    """The type of an option that takes a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"it is a whole number of at least 1, and {text!r} is none")
    return number


@contextmanager
def open_table(options: argparse.Namespace, *, head: bool = True) -> Iterator[Table]:
    """The table of one benchmark: its head first, and at the end its last line and the file of ``--json``.

    With ``head=False`` the benchmark prints the head itself, after lines of its own.
    """
    warnings.simplefilter("ignore", CrowdedWarning)  # the head says how many cores there are
    table = Table(options.command)
    if head:
        table.print_head()
    yield table
    table.finish(options.json)
