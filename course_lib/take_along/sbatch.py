"""The ``#SBATCH`` lines of a script: read as sbatch reads them, each held against the options that there are."""

from __future__ import annotations

import difflib
import re
import shlex

from course_lib.base.checked import checked

__all__ = ["OPTIONS", "read_sbatch"]

_COUNT, _TEXT, _FLAG = r"\d+", r".+", r""
_TIME = r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}|UNLIMITED"
_SIZE = r"\d+[KMGT]?"

OPTIONS: dict[str, str] = {
    "account": _TEXT,
    "array": _TEXT,
    "chdir": _TEXT,
    "comment": _TEXT,
    "constraint": _TEXT,
    "cpus-per-gpu": _COUNT,
    "cpus-per-task": _COUNT,
    "dependency": _TEXT,
    "distribution": _TEXT,
    "error": _TEXT,
    "exclude": _TEXT,
    "exclusive": r"(user|mcs|topo)?",
    "export": _TEXT,
    "gpus": r"(\w+:)?\d+",
    "gpus-per-node": r"(\w+:)?\d+",
    "gpus-per-task": r"(\w+:)?\d+",
    "gres": _TEXT,
    "job-name": _TEXT,
    "mail-type": _TEXT,
    "mail-user": _TEXT,
    "mem": _SIZE,
    "mem-per-cpu": _SIZE,
    "mem-per-gpu": _SIZE,
    "no-requeue": _FLAG,
    "nodelist": _TEXT,
    "nodes": r"\d+(-\d+)?",
    "ntasks": _COUNT,
    "ntasks-per-node": _COUNT,
    "open-mode": r"append|truncate",
    "output": _TEXT,
    "partition": _TEXT,
    "qos": _TEXT,
    "requeue": _FLAG,
    "reservation": _TEXT,
    "signal": r"([RB]+:)?(\d+|[A-Z]\w+)(@\d+)?",
    "switches": _TEXT,
    "time": _TIME,
}
"""Long options of sbatch that a training job may need, each with what its value looks like (manual of Slurm 22.05)."""


@checked
def read_sbatch(text: str) -> dict[str, str]:
    """The options in a script's ``#SBATCH`` lines, without their dashes; ``""`` for one that takes no value.

    As sbatch does it: only lines before the first command count. ``ValueError`` with the line for an option that
    there is not, a value that it does not take, and a line that stands too late and would be passed over.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise ValueError("sbatch takes a script whose first line begins with '#!', such as '#!/bin/bash'")
    found: dict[str, str] = {}
    command = 0
    for number, line in enumerate(lines, start=1):
        if line.startswith("#SBATCH"):
            if command:
                raise ValueError(
                    f"line {number}: {line!r} stands after line {command}, a command, so sbatch ignores it; move it up"
                )
            found |= _options_of(number, line)
        elif line.strip() and not line.lstrip().startswith("#"):
            command = command or number
    return found


def _options_of(number: int, line: str) -> dict[str, str]:
    words = shlex.split(line.removeprefix("#SBATCH"))
    if not words:
        raise ValueError(f"line {number}: {line!r} has no option, such as --nodes=2")
    return dict(_option(number, word) for word in words)


def _option(number: int, word: str) -> tuple[str, str]:
    name, equals, value = word.removeprefix("--").partition("=")
    if not word.startswith("--"):
        raise ValueError(f"line {number}: {word!r} is no long option; write --name=value, such as --nodes=2")
    if name not in OPTIONS:
        near = difflib.get_close_matches(name, OPTIONS, n=1)
        raise ValueError(
            f"line {number}: --{name} is not one of sbatch's options that the dry run knows"
            + (f"; the nearest is --{near[0]}" if near else "; see OPTIONS in course_lib.take_along.sbatch")
        )
    if not re.fullmatch(OPTIONS[name], value) or (equals and not value):
        looks = f"looks like {OPTIONS[name]}" if OPTIONS[name] else "takes no value"
        raise ValueError(f"line {number}: --{name} was given {value!r}; a value of it {looks}")
    return name, value
