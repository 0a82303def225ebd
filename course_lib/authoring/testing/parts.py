"""The parts of the test run: the words that choose them, and the commands of each."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.devices.container_limits import available_memory_bytes, usable_cores
from course_lib.lessons.info import built_notebooks

__all__ = ["ALONE", "GROUPS", "PARTS", "TestPart", "choose", "commands_of", "nbval_command", "workers"]

_MOST_WORKERS = 5
_WORKER_BYTES = 2_000_000_000  # of a worker with the ranks that it keeps warm
# A worker that was killed, for memory say, ends the run. A new one would wait for work for ever (xdist 3.8).
_NO_NEW_WORKERS = ("--max-worker-restart=0",)
_CELL_LIMIT_S = 900  # a cell that hangs; the slowest honest one takes a thirtieth of it on two cores
_KERNEL_START_LIMIT_S = 600  # one that hangs; a minute or two where many others run
_WARM_FROM = 3  # notebooks: for fewer, the process that kernels are forked from costs more than it saves
_NBVAL_RULES = "notebooks/nbval.cfg"
ALONE = {  # what is no part of a run, by its word, and how it is called
    "quick": "course test quick [--since COMMIT]",
    "portable": "course test portable [--processor KIND] [--threads N] [--lesson NN]",
}
GROUPS = {"notebooks": ("fresh", "solutions", "learner")}


@dataclass(frozen=True)
class TestPart:
    """A part of the test run: the word that chooses it, and what it shows."""

    name: str
    title: str


PARTS = (
    TestPart("lint", "lint and format (ruff)"),
    TestPart("types", "types (pyrefly)"),
    TestPart("unit", "unit tests (pytest)"),
    TestPart("fresh", "notebooks match their sources"),
    TestPart("solutions", "solutions, outputs compared"),
    TestPart("learner", "learner's notebooks, run unsolved"),
)


def workers(*, waiting: bool = True, cores: int | None = None, memory_bytes: int | None = None) -> int:
    """How many tests at a time: few, since many of them start several ranks themselves, each of them a process.

    ``waiting``: these tests wait often, for a rank that hangs on purpose, say, so one more than there are cores keeps
    all of them busy. Not on two cores: a third worker collects all tests and warms ranks of its own for little.
    ``cores`` and ``memory_bytes`` stand in for those of this machine.
    """
    cores = usable_cores() if cores is None else cores
    free_bytes = available_memory_bytes() if memory_bytes is None else memory_bytes
    wanted = min(cores + (waiting and cores > 2), _MOST_WORKERS)
    return max(1, min(wanted, free_bytes // _WORKER_BYTES))


def _nbval(root: Path, folder: str, *, mode: str) -> list[str]:
    """The pytest command for every notebook of a folder.

    Raises:
        ValueError: The folder holds no notebook, which must never pass for success.
    """
    notebooks = [str(path.relative_to(root)) for path in built_notebooks(root / folder)]
    if not notebooks:
        raise ValueError(f"{root / folder} holds no notebook, so nothing is proved. Run `course build`.")
    are_warm = len(notebooks) >= _WARM_FROM
    command = nbval_command(root, notebooks, mode=mode, are_warm=are_warm)
    if are_warm and mode == "--nbval":
        command += ["--cold-start", Path(notebooks[0]).name]
    if mode == "--nbval-lax":
        command += ["-p", "course_lib.authoring.testing.unsolved"]
    return command


def nbval_command(
    root: Path,
    notebooks: Sequence[str],
    *,
    mode: str = "--nbval",
    are_warm: bool,
    python: str = sys.executable,
) -> list[str]:
    """The pytest command for these notebooks, paths below ``root``, by this or by another interpreter.

    ``are_warm``: kernels begin as forks of one process that has imported what all of them need.
    """
    rules = ["--nbval-sanitize-with", _NBVAL_RULES] if (root / _NBVAL_RULES).is_file() else []
    # loadfile: the cells of a notebook share a kernel, so one worker takes them all.
    spread = ["-n", str(workers()), "--dist", "loadfile", *_NO_NEW_WORKERS]
    kernel = ["--nbval-current-env", f"--nbval-cell-timeout={_CELL_LIMIT_S}", "-p", "no:cacheprovider"]
    kernel += [f"--nbval-kernel-startup-timeout={_KERNEL_START_LIMIT_S}"]
    if are_warm:
        kernel += ["-p", "course_lib.authoring.testing.warm_kernels"]
    return [python, "-m", "pytest", "-q", mode, *kernel, *rules, *spread, *notebooks]


def commands_of(part: str, *, root: Path, pytest_options: Sequence[str] = ()) -> list[list[str]]:
    """The commands of a part, to be run in `root`, each with exit code 0 for success."""
    python = [sys.executable, "-m"]
    # loadgroup: tests of one `xdist_group` stay on one worker, one after another; tests/conftest.py gives the groups.
    # no:nbval: it takes over a second to import, in each of the processes.
    plugins = ["-p", "no:cacheprovider", "-p", "no:nbval"]
    unit = [*python, "pytest", "-q", *plugins, "-n", str(workers()), "--dist", "loadgroup", *_NO_NEW_WORKERS]
    match part:
        case "lint":
            return [
                [*python, "ruff", "check", "--no-cache"],
                [*python, "ruff", "format", "--check", "--no-cache"],
            ]
        case "types":
            return [[*python, "pyrefly", "check"]]
        case "unit":
            return [[*unit, *pytest_options]]
        case "fresh":
            return [[*python, "course_lib.cli", "build", "--check"]]
        case "solutions":
            return [[*_nbval(root, "notebooks/solutions", mode="--nbval"), *pytest_options]]
        case "learner":
            return [[*_nbval(root, "notebooks", mode="--nbval-lax"), *pytest_options]]
    raise AssertionError(part)


def choose(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into the parts that it names, in their order, and what goes to pytest.

    Raises:
        ValueError: A word that is neither a part, an option nor a path.
    """
    names = [part.name for part in PARTS]
    known = [*names, *GROUPS, *ALONE]
    words = list(argv)
    chosen: list[str] = []
    while words and words[0] in known:
        word = words.pop(0)
        if word in ALONE:
            raise ValueError(f"`{word}` stands alone: {ALONE[word]}")
        chosen.extend(GROUPS.get(word, (word,)))
    if words and not words[0].startswith("-") and not Path(words[0].split("::")[0]).exists():
        near = difflib.get_close_matches(words[0], known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no part {words[0]!r}; there are {', '.join(known)}.{guess}")
    if not chosen:
        chosen = ["unit"] if words else names
    return [name for name in names if name in chosen], words
