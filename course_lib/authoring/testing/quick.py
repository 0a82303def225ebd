"""``course test quick``: what a change touches, in ninety seconds at most, and by name what was left out.

The files that differ from ``main`` say which tests may see a difference, nearest first (``reach.py``). They run until
the time is up. Slow tests and whole notebooks are left to the full run.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.testing.changed import Changes, GitError, changes
from course_lib.authoring.testing.in_time import LEFT_OUT
from course_lib.authoring.testing.parts import commands_of
from course_lib.authoring.testing.reach import EXERCISES, lessons_of, touched_tests
from course_lib.authoring.testing.run import PartRun, own_environment, run_lanes

__all__ = ["MOST_FILES", "TestSelection", "main", "plan_for"]

_BUILT_FROM = (
    *("notebooks/", "course_lib/lessons/", "course_lib/authoring/notebooks/", "README.md", "docs/"),
    *("course_lib/authoring/programs/", "course_lib/examples/"),
)
_MOST_S = 90.0
_START_SHARE = 0.7  # of the time, after which no test starts: the one under way must end, and pytest too
_STOP_S = 8.0  # for what is stopped to end
MOST_FILES = 10  # of tests: to collect them takes time as well
_NOTHING_COLLECTED = 5  # pytest's exit code: every test of these files is slow, or of another lesson
_SHOWN = 6


@dataclass(frozen=True)
class TestSelection:
    """What a quick run does. ``tests``: files, nearest first; ``later``: those it does not come to."""

    parts: tuple[str, ...]
    tests: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()  # of the exercises, where only some are touched

    def commands(self, part: str, *, root: Path, start_until_s: float) -> list[list[str]]:
        """The commands of a part; ``start_until_s`` on the clock of the system."""
        in_time = ["-p", "course_lib.authoring.testing.in_time", "--start-until", f"{start_until_s:.0f}"]
        options = [*in_time, "--lessons", ",".join(self.lessons), "-m", "not slow", "-rs"]
        options.append("--no-loadscope-reorder")  # the nearest first
        return commands_of(part, root=root, pytest_options=[*options, *self.tests])


def plan_for(root: Path, files: Sequence[str]) -> TestSelection:
    """What to run when these files have changed."""
    code = [path for path in files if path.endswith(".py") or path == "course"]
    touched = [path for path, _ in touched_tests(root, files)]
    needs = {
        "lint": bool(code),
        "types": any(path.startswith("course_lib/") for path in code) or "pyproject.toml" in files,
        "unit": bool(touched),
        "fresh": any(path.startswith(_BUILT_FROM) for path in files),
    }
    lessons = lessons_of(files)
    narrow = lessons and all(lessons_of([path]) for path in files if path.startswith("course_lib/"))
    return TestSelection(
        tuple(part for part, needed in needs.items() if needed),
        tuple(touched[:MOST_FILES]),
        tuple(touched[MOST_FILES:]),
        tuple(sorted(lessons)) if narrow and EXERCISES not in files else (),
    )


def main(argv: Sequence[str], *, root: Path) -> int:
    """Run what the change touches: 0 when all of it passed in time, 1 when not, 2 when git cannot tell."""
    began_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="course test quick", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", metavar="COMMIT", help="compare with this commit (default: where main was left)")
    parser.add_argument("--most-s", type=float, default=_MOST_S, metavar="SECONDS", help="default: %(default)g")
    options = parser.parse_args(argv)
    try:
        changed = changes(root, options.since)
    except GitError as error:
        print(f"course test quick: {error}.", file=sys.stderr)
        return 2
    if not changed.files:
        print(f"Nothing has changed since {changed.since}. `course test` runs every check.")
        return 0
    plan = plan_for(root, changed.files)
    print(f"{_count(len(changed.files), 'file')} changed since {changed.since}: {_some(changed.files)}")
    return _run(plan, changed, root=root, began_s=began_s, most_s=options.most_s)


def _run(plan: TestSelection, changed: Changes, *, root: Path, began_s: float, most_s: float) -> int:
    passed_s = time.monotonic() - began_s
    until_s = time.time() + most_s * _START_SHARE - passed_s
    with own_environment() as env:
        runs = run_lanes(
            plan.parts,
            lambda part: plan.commands(part, root=root, start_until_s=until_s),
            root=root,
            env=env,
            end_s=began_s + max(0.0, most_s - _STOP_S),
            patience_s=_STOP_S,
            well={"unit": (0, _NOTHING_COLLECTED)},
        )
    for line in _left_out(plan, runs, changed):
        print(f"left out   {line}")
    failed = [run.name for run in runs if not run.passed]
    unfinished = [part for part in plan.parts if part not in {run.name for run in runs if _has_run(run)}]
    num_passed = len(plan.parts) - len(failed) - len(unfinished)
    tally = f"{num_passed} passed, {len(failed)} failed, {len(unfinished)} not finished"
    bad = f": {', '.join([*failed, *unfinished])}" if failed or unfinished else ""
    print(f"\n{tally} in {time.monotonic() - began_s:.0f} s{bad}")
    return 1 if bad else 0


def _has_run(run: PartRun) -> bool:
    """Whether a part that is over has tried anything: not where the time was up before its first test."""
    return not run.passed or LEFT_OUT not in run.output or " passed" in run.output


def _left_out(plan: TestSelection, runs: Sequence[PartRun], changed: Changes) -> list[str]:
    """In words, what a full run would do beyond this one, the most telling first."""
    over = {run.name: run for run in runs}
    lines = [f"{part}: it had not finished when the time was up" for part in plan.parts if part not in over]
    output = over["unit"].output if "unit" in over else ""
    skipped = re.findall(rf"^SKIPPED \[(\d+)\] .*{LEFT_OUT} (\S+)$", output, re.MULTILINE)
    if skipped:
        number = sum(int(number) for number, _ in skipped)
        lines.append(f"{_count(number, 'test')}, for the time was up: {_some(sorted({file for _, file in skipped}))}")
    if plan.later:
        lines.append(f"{_count(len(plan.later), 'file')} of tests, further from the change: {_some(plan.later)}")
    if plan.lessons and EXERCISES in plan.tests:
        lines.append(f"exercises of lessons other than {', '.join(plan.lessons)}")
    lines.append("tests marked slow, and what the imports do not tell")
    lessons = sorted(lessons_of(path for path in changed.files if path.startswith("notebooks/")))
    lines.append("running the notebooks" + (f" {', '.join(lessons)}" if lessons else "") + ": `course test notebooks`")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
