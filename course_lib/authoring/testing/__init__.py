"""The verb `test`: every check of the course, part by part, with a line and a time for each.

A part is one or more commands; it fails when one of them does, and then shows its whole output. What is a single
process (lint, types, freshness) runs beside what spreads over the cores: the unit tests, then the notebooks.

In the order to read:

- ``browser_lab.py``: A real `course lab` for a browser that is driven
- ``changed.py``: which files differ from the last commit of `main`, by git
- ``parts.py``: the parts of the test run
- ``reach.py``: which tests a change may touch, read off the imports
- ``in_time.py``: A plugin of pytest for the quick run
- ``run.py``: run parts: in two lanes side by side, with a line and a time for each, and the whole output of those that
  fail
- ``quick.py``: ``course test quick``: what a change touches, in ninety seconds at most, and by name what was left out
- ``unsolved.py``: A plugin of pytest: of a learner's copy, run the cells that its solution does not show already
- ``warm_kernels.py``: A plugin of pytest: kernels of notebooks begin as forks of one process that has imported what all
  of them need
- ``portable/``: ``course test portable``: the solved notebooks in other arithmetic, and by other Pythons and versions
  of torch
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from course_lib.authoring.testing.parts import ALONE, PARTS, TestPart, choose, commands_of
from course_lib.authoring.testing.run import run_parts
from course_lib.base import paths
from course_lib.base.signals import ended_as_by_ctrl_c

__all__ = ["PARTS", "TestPart", "choose", "commands_of", "main", "run_parts"]

_HOME_OF = {  # of what is no part of a run
    "quick": "course_lib.authoring.testing.quick",
    "portable": "course_lib.authoring.testing.portable.command",
}
_HELP = """\
course test [PART ...] [options of pytest]
course test quick [--since COMMIT]

course test portable [--processor KIND] [--threads N] [--python VERSION] [--torch VERSION] [--lesson NN]

`quick` runs what a change touches, in 90 seconds at most, and says what it left out. Without a part all
of them run; `notebooks` stands for the last three.
{parts}

`portable` runs the solutions in other arithmetic, and by other Pythons and versions of torch, and says which
cells differ: every night, and before a release. It is in no other run.

Options, such as -k NAME or -x or tests/test_cli.py, go to pytest. Without a part, they choose `unit`."""


def main(argv: Sequence[str]) -> int:
    """Run the parts that the command line names; 0 when all passed, 1 when not, 2 for a word not known."""
    if set(argv) & {"-h", "--help"} and not set(argv[:1]) & set(ALONE):
        print(_HELP.format(parts="\n".join(f"    {part.name:<10} {part.title}" for part in PARTS)))
        return 0
    alone = argv[0] if argv and argv[0] in ALONE else ""
    try:
        names, pytest_options = ([], []) if alone else choose(argv)
    except ValueError as error:
        print(f"course test: {error}", file=sys.stderr)
        return 2
    root = paths.project_root()
    if not (root / "tests").is_dir():
        why = f"{root} is not a clone of the course: it has no tests."
        print(
            f"course test: {paths.needs_clone('A test') if paths.is_installed(root) else why}",
            file=sys.stderr,
        )
        return 2
    try:
        with ended_as_by_ctrl_c():
            if alone:
                return int(importlib.import_module(_HOME_OF[alone]).main(argv[1:], root=root))
            return run_parts(names, root=root, pytest_options=pytest_options)
    except KeyboardInterrupt:
        print("\ncourse test: stopped; what it had started has ended with it.", file=sys.stderr)
        return 130
