"""``course bench class``: N learners of one installation work through lessons at once, each in a JupyterLab of theirs.

As root they are real users of the system, made for the bench and removed with their homes; otherwise they are homes of
one account. Each starts ``course lab`` of the installation that ``--course`` names, from cold, and its kernels run the
code of the solutions. What is told: seconds, memory and processes of each, and every error.

Read `users` first, then `learner`, then `watch`.

In the order to read:

- ``users.py``: learners of a bench: users of the system made for it, or homes of one account where this is not root
- ``learner.py``: one learner of a bench
- ``watch.py``: looks every few seconds at what each learner's processes take together
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.bench.class_of_users.learner import LearnerOutcome, work_through
from course_lib.authoring.bench.class_of_users.users import User, homes, may_make_users, unix_users
from course_lib.authoring.bench.class_of_users.watch import LearnerWatch
from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.table import Table
from course_lib.base.paths import is_installed, needs_clone, project_root

__all__ = ["TriedLesson", "hold_class", "main"]

_LESSONS = ("00", "02a", "04a")


@dataclass(frozen=True)
class TriedLesson:
    """The whole class: what each learner met, what they took, and how long it all lasted."""

    outcomes: list[LearnerOutcome]
    watch: LearnerWatch
    time_s: float

    @property
    def errors(self) -> list[str]:
        return [error for outcome in self.outcomes for error in outcome.errors]


def main(arguments: list[str]) -> int:
    parser = bench_parser("class", __doc__, rounds=1, of="times that the class is held")
    parser.add_argument("--learners", type=count, default=6, help="how many at once (default 6)")
    parser.add_argument("--lessons", nargs="+", default=list(_LESSONS), metavar="NN", help="parts, one after another")
    parser.add_argument("--course", type=Path, default=project_root(), help="the installation (default: this one)")
    options = parser.parse_args(arguments)
    if is_installed(options.course):
        parser.error(f"{needs_clone('This bench')} --course names it.")
    from course_lib.lab.edition import lesson_named

    try:
        stems = [Path(lesson_named(options.course, word)).stem for word in options.lessons]
    except ValueError as error:
        parser.error(str(error))
    failed = False
    with open_table(options) as table:
        for _ in range(options.rounds):
            load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
            told = hold_class(options.course, options.learners, stems)
            _tell(table, told, options.learners, stems, load)
            failed = failed or bool(told.errors)
    return int(failed)


def hold_class(course: Path, learners: int, stems: Sequence[str]) -> TriedLesson:
    """Have all learners begin at the same moment, and wait for all. Leaves no user, process or file behind."""
    with _users(learners) as users, LearnerWatch(users) as watch:
        began_s = time.perf_counter()
        outcomes: list[LearnerOutcome | None] = [None] * len(users)

        def one(number: int, user: User) -> None:
            outcomes[number] = work_through(course, user, stems, started=watch.follow)

        threads = [threading.Thread(target=one, args=each, daemon=True) for each in enumerate(users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time_s = time.perf_counter() - began_s
    done = [outcome or LearnerOutcome(errors=["a learner's thread ended early"]) for outcome in outcomes]
    return TriedLesson(done, watch, time_s)


@contextlib.contextmanager
def _users(number: int) -> Iterator[list[User]]:
    with tempfile.TemporaryDirectory(prefix="class-", ignore_cleanup_errors=True) as name:
        base = Path(name)
        base.chmod(0o755)
        with unix_users(number, base) if may_make_users() else homes(number, base) as users:
            yield users


def _tell(table: Table, told: TriedLesson, learners: int, stems: Sequence[str], load: float) -> None:
    who = "Unix users" if may_make_users() else "homes of one user"
    head = f"{learners} {who}"
    table.add(f"{head}: load of the machine before", [load], "load")
    table.add(f"{head}: whole class", [told.time_s], "s")
    table.add(f"{head}: until JupyterLab answers", [each.start_s for each in told.outcomes if each.start_s], "s")
    for stem in stems:
        times = [each.times_s[stem] for each in told.outcomes if stem in each.times_s]
        if times:
            table.add(f"{head}: {stem}", times, "s")
    table.add(f"{head}: most memory of a learner", [size / 1e6 for size in told.watch.most_bytes], "MB")
    table.add(f"{head}: most memory of all", [told.watch.most_bytes_of_all / 1e6], "MB")
    table.add(f"{head}: most processes of a learner", told.watch.most_processes, "processes")
    table.add(f"{head}: errors", [float(len(told.errors))], "errors", target=0)
    for error in told.errors:
        print(f"  {error}", flush=True)
