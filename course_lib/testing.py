"""The verb `test`: every check of the course, part by part, with a line and a time for each.

A part is one or more commands; it fails when one of them does, and then shows its whole output. The parts run
one after another, and those made of pytest use several processes within.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from course_lib import paths

__all__ = ["PARTS", "Part", "choose", "commands_of", "main", "run_part", "run_parts"]

_CELL_LIMIT_S = 900  # a cell that hangs; the slowest honest one takes a thirtieth of it on two cores
_KERNEL_START_LIMIT_S = 600  # one that hangs; a minute or two where many others run
_NBVAL_RULES = "notebooks/nbval.cfg"
_GROUPS = {"notebooks": ("fresh", "solutions", "learner")}
_HELP = """\
course test [PART ...] [options of pytest]

Without a part it runs all of them; `notebooks` stands for the last three.
{parts}

Options, such as -k NAME or -x or tests/test_cli.py, go to pytest. Without a part, they choose `unit`."""


@dataclass(frozen=True)
class Part:
    """A part of the test run: the word that chooses it, and what it shows."""

    name: str
    title: str


PARTS = (
    Part("lint", "lint and format (ruff)"),
    Part("types", "types (mypy)"),
    Part("unit", "unit tests (pytest)"),
    Part("fresh", "notebooks match their sources"),
    Part("solutions", "solutions, outputs compared"),
    Part("learner", "learner's notebooks, run unsolved"),
)


def _workers() -> int:
    """How many tests at a time: many of them start several ranks themselves, so few."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, 4))


def _nbval(root: Path, folder: str, *, mode: str) -> list[str]:
    """The pytest command for every notebook of a folder.

    Raises:
        ValueError: The folder holds no notebook, which must never pass for success.
    """
    notebooks = sorted(str(path.relative_to(root)) for path in (root / folder).glob("[0-9]*.ipynb"))
    if not notebooks:
        raise ValueError(f"{root / folder} holds no notebook, so nothing is proved. Run `course build`.")
    rules = ["--nbval-sanitize-with", _NBVAL_RULES] if (root / _NBVAL_RULES).is_file() else []
    # loadfile: the cells of a notebook share a kernel, so one worker takes them all.
    spread = ["-n", str(_workers()), "--dist", "loadfile"]
    kernel = ["--nbval-current-env", f"--nbval-cell-timeout={_CELL_LIMIT_S}", "-p", "no:cacheprovider"]
    kernel += [f"--nbval-kernel-startup-timeout={_KERNEL_START_LIMIT_S}"]
    return [sys.executable, "-m", "pytest", "-q", mode, *kernel, *rules, *spread, *notebooks]


def commands_of(part: str, *, root: Path, pytest_options: Sequence[str] = ()) -> list[list[str]]:
    """The commands of a part, to be run in `root`, each with exit code 0 for success."""
    python = [sys.executable, "-m"]
    # loadgroup: by single tests, but those of one `xdist_group` stay on one worker, one after another.
    # no:nbval: it takes over a second to import, in each of the processes.
    plugins = ["-p", "no:cacheprovider", "-p", "no:nbval"]
    unit = [*python, "pytest", "-q", *plugins, "-n", str(_workers()), "--dist", "loadgroup"]
    match part:
        case "lint":
            return [
                [*python, "ruff", "check", "--no-cache"],
                [*python, "ruff", "format", "--check", "--no-cache"],
            ]
        case "types":
            return [[*python, "mypy"]]
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
    known = [*names, *_GROUPS]
    words = list(argv)
    chosen: list[str] = []
    while words and words[0] in known:
        word = words.pop(0)
        chosen.extend(_GROUPS.get(word, (word,)))
    if words and not words[0].startswith("-") and not Path(words[0].split("::")[0]).exists():
        near = difflib.get_close_matches(words[0], known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no part {words[0]!r}; there are {', '.join(known)}.{guess}")
    if not chosen:
        chosen = ["unit"] if words else names
    return [name for name in names if name in chosen], words


def _run_command(command: Sequence[str], *, root: Path, env: dict[str, str]) -> tuple[int, str]:
    """Run one command to its end; return its exit code and what it wrote. It is stopped when we are."""
    # A file and not a pipe: a process that a test left behind would hold a pipe open, and us with it.
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            code = child.wait()
        except BaseException:
            _stop(child)
            raise
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a child of ours: as Ctrl-C does, so that pytest ends its workers and kernels, then less politely."""
    for end in (lambda: child.send_signal(signal.SIGINT), child.terminate, child.kill):
        end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
            return


def run_part(name: str, *, root: Path, env: dict[str, str], pytest_options: Sequence[str] = ()) -> bool:
    """Run one part, print its line (and upon failure its whole output), and say whether it passed."""
    title = next(part.title for part in PARTS if part.name == name)
    print(f"{name:<10} {title:<34}", end=" ", flush=True)
    start_s = time.monotonic()
    code, output = 0, ""
    try:
        for command in commands_of(name, root=root, pytest_options=pytest_options):
            code, text = _run_command(command, root=root, env=env)
            output += text
            if code != 0:
                output += f"\n(exit code {code} from: {' '.join(command)})\n"
                break
    except ValueError as error:
        code, output = 1, f"{error}\n"
    last = next((line.strip("= ") for line in reversed(output.splitlines()) if line.strip()), "")
    result = f"ok      {time.monotonic() - start_s:6.1f} s   {last}" if code == 0 else "FAILED"
    print(result if code == 0 else f"{result}  {time.monotonic() - start_s:6.1f} s\n\n{output}", flush=True)
    return code == 0


def run_parts(names: Sequence[str], *, root: Path, pytest_options: Sequence[str] = ()) -> int:
    """Run parts in order, all of them whatever fails; 0 when every one passed, 1 otherwise."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="course-test-") as home:
        # A folder of their own: tests touch neither the learner's progress nor their Jupyter settings.
        own = {"COURSE_HOME": "course", "IPYTHONDIR": "ipython"}
        own |= {"JUPYTER_CONFIG_DIR": "jupyter/config", "JUPYTER_DATA_DIR": "jupyter/data"}
        env = {**os.environ, **{name: str(Path(home, folder)) for name, folder in own.items()}}
        env["PYTHONWARNINGS"] = (
            "ignore:More ranks than cores"  # as in the build: outputs then fit every machine
        )
        passed = [run_part(name, root=root, env=env, pytest_options=pytest_options) for name in names]
    failed = [name for name, good in zip(names, passed, strict=True) if not good]
    print(f"\n{sum(passed)} passed, {len(failed)} failed in {time.monotonic() - start_s:.0f} s", end="")
    print(f": {', '.join(failed)}" if failed else "")
    return 1 if failed else 0


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM stop the run as Ctrl-C does, so that no child outlives it."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(argv: Sequence[str]) -> int:
    """Run the parts that the command line names; 0 when all passed, 1 when not, 2 for a word not known."""
    if set(argv) & {"-h", "--help"}:
        print(_HELP.format(parts="\n".join(f"    {part.name:<10} {part.title}" for part in PARTS)))
        return 0
    try:
        names, pytest_options = choose(argv)
    except ValueError as error:
        print(f"course test: {error}", file=sys.stderr)
        return 2
    root = paths.project_root()
    if not (root / "tests").is_dir():
        print(f"course test: {root} is not a clone of the course: it has no tests.", file=sys.stderr)
        return 2
    try:
        with _sigterm_interrupts():
            return run_parts(names, root=root, pytest_options=pytest_options)
    except KeyboardInterrupt:
        print("\ncourse test: stopped; what it had started has ended with it.", file=sys.stderr)
        return 130
