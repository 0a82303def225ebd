"""``course doctor``: what this machine can run, what may trouble, and what to do about it.

Each line is ok, warning (the course runs, with a drawback) or blocked (part of it cannot run). A check that
itself fails becomes a line as well, so the report always comes to its end.

In the order to read:

- ``__main__.py``: ``python -m course_lib.doctor``
- ``finding.py``: one line of the doctor's report
- ``gpu_checks.py``: the GPUs, the links between them, and those that PyTorch cannot use, with what to install
- ``resources.py``: is there enough: cores, memory, shared memory, room on the disks
- ``keeper.py``: whose course it is: one's own clone, or another user's, with one's lessons in a folder of one's own
- ``sharing.py``: who else of the course is on this machine, and whether its notebooks spread over the GPUs
- ``software.py``: is the software there: system, Python, PyTorch, packages, the files of the course
- ``trials.py``: do ranks really run: the back ends that PyTorch holds, and two real ranks that sum a number over each
"""

from __future__ import annotations

import argparse
import json
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from course_lib.base.paths import data_dir, project_root
from course_lib.devices import Machine, machine
from course_lib.doctor import gpu_checks, keeper, resources, sharing, software, trials
from course_lib.doctor.finding import Finding

__all__ = ["Finding", "examine", "main", "report", "table"]

_WIDTH = 100

Check = Callable[[], Finding | list[Finding]]


def examine(here: Machine | None = None, *, root: Path | None = None) -> tuple[Finding, ...]:
    """Every finding about this machine, in the order of the report. Starts ranks; takes a few seconds.

    ``here`` and ``root`` replace the machine and the checkout of the course.
    """
    return tuple(finding for name, check in _checks(here, root) for finding in run_check(name, check))


def run_check(name: str, check: Check) -> list[Finding]:
    """The findings of one check; a check that raises becomes a finding that names the exception."""
    try:
        found = check()
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no message"]
        advice = "The check itself failed, or the program that it asked. Please report it with this line."
        return [Finding(name, "warning", f"could not be checked: {type(error).__name__}: {lines[0]}", advice)]
    return found if isinstance(found, list) else [found]


def report(findings: Sequence[Finding]) -> str:
    """The findings as aligned text, each remedy under its line, and a sentence that sums up."""
    return "\n".join([*table(findings), "", _conclusion(findings)])


def table(findings: Sequence[Finding]) -> list[str]:
    """The findings as aligned lines, each remedy under its own."""
    name_width = max(len(finding.name) for finding in findings)
    indent = " " * (name_width + 11)
    lines = []
    for finding in findings:
        head = f"{finding.name:<{name_width}}  {finding.status:<7}  "
        lines += _wrap(head + finding.detail, indent)
        if finding.remedy:
            lines += _wrap(f"{indent}remedy: {finding.remedy}", indent + "  ")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report, or JSON with ``--json``. Returns 1 where something is blocked, else 0."""
    parser = argparse.ArgumentParser(prog="course doctor", description="What this machine can run, and why not.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, and nothing else")
    options = parser.parse_args(argv)
    findings = examine()
    if options.json:
        blocked = any(finding.status == "blocked" for finding in findings)
        summary = {"tier": machine().tier, "ok": not blocked, "findings": [asdict(f) for f in findings]}
        print(json.dumps(summary, indent=2))
    else:
        print(report(findings))
    return int(any(finding.status == "blocked" for finding in findings))


def _checks(here: Machine | None, root: Path | None) -> Iterator[tuple[str, Check]]:
    """The name and the check of each line; the machine is looked at inside, so that a fault there is told."""
    place = project_root() if root is None else root

    def found() -> Machine:
        return machine() if here is None else here

    yield "system", software.check_system
    yield "Python", software.check_python
    yield "PyTorch", lambda: software.check_torch(found())
    yield "packages", software.check_packages
    yield "package files", software.check_whole
    yield "course files", lambda: software.check_course_files(place)
    yield "cores", lambda: resources.check_cores(found())
    yield "memory", lambda: resources.check_memory(found())
    yield "shared memory", lambda: resources.check_shared_memory(found())
    yield "course folder", lambda: keeper.check_course_folder(place)
    yield "course's own folders", lambda: resources.check_folder("course's own folders", data_dir())
    yield "temporary folder", lambda: resources.check_folder("temporary folder", Path(tempfile.gettempdir()))
    yield "GPU", lambda: gpu_checks.check_gpus(found())
    yield "seats", lambda: sharing.check_seats(found())
    yield "back ends", lambda: trials.check_backends(found())
    yield "all-reduce, gloo", lambda: trials.check_all_reduce("gloo")
    yield "all-reduce, nccl", lambda: trials.check_all_reduce("nccl") if len(found().devices) > 1 else []


def _wrap(text: str, indent: str) -> list[str]:
    """Lines of the report's width; a path or a command is never broken inside a word."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _conclusion(findings: Sequence[Finding]) -> str:
    blocked = [finding.name for finding in findings if finding.status == "blocked"]
    warnings = [finding.name for finding in findings if finding.status == "warning"]
    if blocked:
        return f"Blocked: {', '.join(blocked)}. Part of the course cannot run until you mend that."
    if warnings:
        return f"The course runs here. Worth a look: {', '.join(warnings)}."
    return "The course runs here."
