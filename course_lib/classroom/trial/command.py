"""``course class check``: the evening before a class, how many learners fit here, and which lessons are blocked.

    course class check --learners 30
    course class check --learners 30 --lessons 00 02a 04a --open 2
    course class check --learners 30 --trial 6

A trial starts the kernels of so many learners at once, from cold, and runs the solved lessons in each. It takes
minutes, all cores, and memory as said; Ctrl-C ends it, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from course_lib.base.foreign_text import one_line
from course_lib.base.paths import project_root
from course_lib.classroom.trial.advice import advise
from course_lib.classroom.trial.capacity import first_met, limits
from course_lib.classroom.trial.lessons_here import choose, judge
from course_lib.classroom.trial.node import Node, look
from course_lib.classroom.trial.page import ClassReport
from course_lib.classroom.trial.resource_use import Taken, read_record, taken_from
from course_lib.doctor import Finding, examine
from course_lib.lessons.info import LessonInfo

__all__ = ["main"]

_OF_ITS_OWN = {"cores", "memory", "shared memory", "GPU"}  # told by this report, for the whole class
_MOST_OPEN = 20
_MOST_UNKNOWN = 2  # learners of a trial where nothing is known of what one takes


def main(argv: Sequence[str]) -> int:
    """Print the report: 0 where the class fits and nothing is blocked, else 1; 2 for what cannot be asked."""
    options = _parser().parse_args(list(argv))
    warnings.filterwarnings("ignore", message="More ranks than cores")
    try:
        report = check(options)
    except ValueError as error:
        print(f"course class check: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    print(json.dumps(report.as_dict(), indent=2, default=str) if options.json else report.as_text())
    return int(report.is_blocked)


def check(
    options: argparse.Namespace, node: Node | None = None, doctor: Sequence[Finding] | None = None
) -> ClassReport:
    """The report; ``node`` and ``doctor`` stand in for what this machine has and what is found of it."""
    root = project_root()
    chosen = choose(options.lessons, root)
    node = look(options.homes) if node is None else node
    taken, found, kept = _taken(options, chosen), [], None
    doctor = examine(node.here) if doctor is None else doctor
    if options.trial:
        tried = chosen if options.lessons else _to_try(chosen, taken)
        kept, found = _tried(options, tried, node, taken, root)
        if kept["lessons"]:
            taken = taken_from(kept, [info.label for info in tried], "the trial below")
    if taken is None:
        raise ValueError("no learner came to the end of a lesson in the trial, so it gives no numbers for a learner.")
    return ClassReport(
        learners=options.learners,
        open_lessons=options.open,
        node=node,
        taken=taken,
        limits=limits(node, taken, options.open),
        lessons=judge(chosen, node.here, doctor, root),
        doctor=[one for one in doctor if one.status != "ok" and one.name not in _OF_ITS_OWN],
        advice=advise(node, taken, options.learners, options.open),
        trial=found,
        record=kept,
    )


def _taken(options: argparse.Namespace, chosen: Sequence[LessonInfo]) -> Taken | None:
    """What a learner takes, by a record; None where there is none, and a small trial is to make the first."""
    try:
        record, source = read_record(options.measured)
    except ValueError:
        if options.measured is not None or options.trial is None or options.trial > _MOST_UNKNOWN:
            raise
        return None
    labels = [info.label for info in chosen] if options.lessons else list(record["lessons"])
    return taken_from(record, labels, source)


def _to_try(known: Sequence[LessonInfo], taken: Taken | None) -> list[LessonInfo]:
    """The lessons of a trial where none were named: those of the record, else the first."""
    return [info for info in known if taken is not None and info.label in taken.lessons] or list(known[:1])


def _tried(
    options: argparse.Namespace, lessons: Sequence[LessonInfo], node: Node, taken: Taken | None, root: Path
) -> tuple[dict, list[Finding]]:  # type: ignore[type-arg]
    """Run a trial; its record, and what it tells.

    Raises:
        ValueError: So many would not fit by the formula, or a notebook is missing.
    """
    from course_lib.classroom.trial.trial import run_trial
    from course_lib.classroom.trial.trial_record import findings_of, keep, record_of

    first = None if taken is None else first_met(limits(node, taken, options.open))
    if first is not None and (first.learners or 0) < options.trial:
        raise ValueError(
            f"--trial {options.trial} would be more than this machine has room for, by its {first.name} "
            f"({first.formula}). The most that fits is {first.learners}."
        )
    folder = root / "notebooks" / ("solutions" if options.copies == "solved" else "")
    notebooks = {info.label: folder / f"{info.stem}.ipynb" for info in lessons}
    for path in notebooks.values():
        if not path.is_file():
            raise ValueError(f"there is no {path.relative_to(root)}; `course build` makes it.")
    if options.keep is not None and not options.keep.absolute().parent.is_dir():
        raise ValueError(f"--keep {options.keep}: there is no folder {options.keep.absolute().parent}.")
    trial = run_trial(options.trial, notebooks, open_lessons=options.open, with_server=True)
    words = [f"--trial {options.trial}", f"--lessons {' '.join(notebooks)}"]
    words += [f"--open {options.open}"] if options.open > 1 else []
    words += [f"--copies {options.copies}"] if options.copies != "solved" else []
    record = record_of(trial, f"course class check {' '.join(words)}", options.copies)
    if options.keep is not None:
        keep(record, options.keep)
    return record, findings_of(trial)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course class check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--learners", type=_count("learners"), default=30, metavar="N", help="in the class (default 30)")
    add("--lessons", nargs="+", default=[], metavar="00", help="that it takes: 02a, or 02 for all its parts")
    add(
        "--open", type=_count("open", _MOST_OPEN), default=1, metavar="K",
        help="lessons that each has open at the same time (default 1)",
    )  # fmt: skip
    add("--json", action="store_true", help="print the report as JSON, and nothing else")
    add(
        "--trial",
        type=_count("trial"),
        metavar="N",
        help="run the lessons for N learners at once, here and now",
    )
    add(
        "--copies",
        choices=("solved", "unsolved"),
        default="solved",
        help="that a trial runs (default solved)",
    )
    add("--keep", type=Path, metavar="FILE", help="keep the record of the trial in this file")
    add("--measured", type=Path, metavar="FILE", help="what a learner takes, from a trial that was kept")
    add(
        "--homes",
        type=Path,
        metavar="FOLDER",
        help="where the learners' folders will be (default: your home)",
    )
    return parser


def _count(name: str, most: int = 10_000):  # type: ignore[no-untyped-def]
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"it is a whole number, and {text!r} is none") from None
        if not 1 <= number <= most:
            near = min(max(number, 1), most)
            raise argparse.ArgumentTypeError(f"it goes from 1 to {most}, and is {number}; the nearest is {near}")
        return number

    return read
