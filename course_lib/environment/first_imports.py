"""Imports once what the lessons import, so that Python keeps its compiled form and the first lesson starts quickly.

uv leaves compiling to the first import. That import may never be able to keep the result: a class shares one
installation that learners cannot write, and many containers set PYTHONDONTWRITEBYTECODE. To compile everything
that is installed would take a minute; these are the parts that the course uses. It runs in the new environment, as
its own process, and cannot fail: what cannot be imported is left to the lesson, which says why.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys

__all__ = ["GROUPS", "main"]

_STRATEGIES = ("collectives", "data", "sharded", "model", "pipeline", "tensor", "mesh", "context", "experts")

# Each group is a process of its own, beside the other: what ranks and lessons need, and what shows them.
GROUPS: tuple[tuple[str, ...], ...] = (
    (
        "course_lib.cluster.process.preload",
        "course_lib",
        "course_lib.cluster",
        "course_lib.learn",
        "course_lib.learn.checks.preload",
        "course_lib.meter",
        "course_lib.models",
        "course_lib.cost",
        "course_lib.plot",
        *(f"course_lib.parallel.{room}" for room in _STRATEGIES),
        "course_lib.doctor",
        "course_lib.lab.command",
    ),
    (
        "course_lib.lab.kernels",
        "jupyterlab.labapp",
        "ipykernel.kernelapp",
        "ipywidgets",
        "nbclient",
        "matplotlib.pyplot",
        "matplotlib.backends.backend_agg",
        "matplotlib_inline.backend_inline",
        "sklearn.datasets",
        "pytest",
        "xdist",
        "nbval.plugin",
        "jupytext",
    ),
)


def main(argv: list[str]) -> int:
    """Without an argument: a process for each group. With a number: import that group here."""
    if argv:
        sys.dont_write_bytecode = False
        for name in GROUPS[int(argv[0])]:
            with contextlib.suppress(Exception, SystemExit):
                module = importlib.import_module(name)
                if name.startswith("course_lib"):  # a face loads what is behind it when it is asked
                    for each in module.__all__:
                        getattr(module, each)
        return 0
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-P", "-m", __spec__.name]
    children = [
        subprocess.Popen([*command, str(number)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(len(GROUPS))
    ]
    for child in children:
        child.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
