"""Run parts: in two lanes side by side, with a line and a time for each, and the whole output of those that fail.

One lane holds what is a single process (lint, types, freshness), the other what spreads over the cores by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from course_lib.authoring.testing.parts import PARTS, commands_of

__all__ = ["Commands", "PartRun", "own_environment", "run_lanes", "run_parts"]

_SINGLE = ("lint", "types", "fresh")  # one process each, which fills a core while tests wait
_LOOK_EVERY_S = 0.05
# After Ctrl-C: pytest's workers end, which takes ten seconds, and it tells what they have found.
_PATIENCE_S = 60.0
_POLITE_S = 10.0  # with what was asked less politely

Commands = Callable[[str], list[list[str]]]  # those of a part, by its name


class PartRun:
    """A part that is running: its commands one after another, up to the first that fails.

    ``commands`` may raise ValueError: the part then fails with that sentence.
    """

    def __init__(
        self,
        name: str,
        commands: Commands,
        *,
        root: Path,
        env: Mapping[str, str],
        well: Sequence[int] = (0,),
    ) -> None:
        self.name, self.output, self._well = name, "", well
        self.code: int | None = None  # of the part, once it is over
        self.is_cut = False  # whether it was stopped before it was over
        self.began_s = time.monotonic()
        self._root, self._env = root, env
        self._command: list[str] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self._ahead: deque[list[str]] = deque()
        try:
            self._ahead.extend(commands(name))
        except ValueError as error:
            self.code, self.output = 1, f"{error}\n"

    @property
    def passed(self) -> bool:
        return self.code == 0

    def is_over(self) -> bool:
        """Go on with the next command where one has ended; whether the part is over."""
        if self.code is None and (self._child is None or self._child.poll() is not None):
            if self._child is not None:
                self._take(self._child)
            if self.code is None and self._ahead:
                self._start(self._ahead.popleft())
            elif self.code is None:
                self.code = 0
        return self.code is not None

    def _start(self, command: list[str]) -> None:
        # A file and not a pipe: a process that a test left behind would hold a pipe open, and us with it.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _take
        self._command = command
        self._child = subprocess.Popen(
            command,
            cwd=self._root,
            env=dict(self._env),
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            # A terminal's Ctrl-C is for us: pytest, hearing it twice, would drop the report that it has begun.
            start_new_session=os.name != "nt",
        )

    def _take(self, child: subprocess.Popen[bytes]) -> None:
        """What an ended command has written, and whether it failed."""
        assert self._file is not None
        with self._file as file:
            file.seek(0)
            self.output += file.read().decode("utf-8", "replace")
        self._child = None
        if child.returncode not in self._well:
            self.code = child.returncode
            self.output += f"\n(exit code {child.returncode} from: {subprocess.list2cmdline(self._command)})\n"

    def cut_short(self) -> None:
        """After its process was stopped: keep what that had written; nothing more of the part runs."""
        self.is_cut = True
        self._ahead.clear()
        if self._child is not None:
            self._take(self._child)

    def child(self) -> subprocess.Popen[bytes] | None:
        """The process that runs now."""
        return self._child if self._child is not None and self._child.poll() is None else None

    def line(self) -> str:
        """The part, how it ended, how long it took, and the last line that it wrote."""
        title = next(part.title for part in PARTS if part.name == self.name)
        lines = [text.strip("= ") for text in self.output.splitlines() if text.strip("= ")]
        time_s = time.monotonic() - self.began_s
        how = "STOPPED" if self.is_cut else "ok" if self.passed else "FAILED"
        head = f"{self.name:<10} {title:<34} {how:<7} {time_s:7.1f} s"
        return f"{head}   {lines[-1] if lines else ''}".rstrip() if self.passed else f"{head}\n\n{self.output}"


def stop(runs: Iterable[PartRun], *, patience_s: float = _PATIENCE_S) -> None:
    """End what runs: as Ctrl-C does, so that pytest ends its workers and kernels, then less politely.

    Who does not want to wait ``patience_s`` presses Ctrl-C once more.
    """
    children = [child for child in (run.child() for run in runs) if child is not None]
    if children:
        print("stopping what runs; Ctrl-C does it at once", file=sys.stderr, flush=True)
    ways = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM))
    for way, limit_s in zip(ways, (patience_s, _POLITE_S, _POLITE_S), strict=True):
        end_s = time.monotonic() + limit_s
        with contextlib.suppress(KeyboardInterrupt):
            for child in children:
                child.send_signal(way)
            for child in children:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, end_s - time.monotonic()))
        children = [child for child in children if child.poll() is None]


def run_lanes(
    names: Sequence[str],
    commands: Commands,
    *,
    root: Path,
    env: Mapping[str, str],
    end_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    patience_s: float = _PATIENCE_S,
    well: Mapping[str, Sequence[int]] | None = None,
) -> list[PartRun]:
    """Run parts, all of them whatever fails, and print each when it is over; those that are, in the order of ``names``.

    What is under way when this is interrupted, or when the time is up, is stopped and printed as far as it came.

    ``end_s``, on ``clock``: what is not over then is stopped, and missing in what is returned.
    ``patience_s``: how long what is stopped has to tell what it has found.
    ``well``: for a part, the exit codes of a success, where there are others than 0.
    """
    lanes = [deque(name for name in names if (name in _SINGLE) == single) for single in (True, False)]
    now: list[PartRun | None] = [None, None]
    done: list[PartRun] = []
    try:
        while any(lanes) or any(now):
            if end_s is not None and clock() >= end_s:
                break
            for lane, names_ahead in enumerate(lanes):
                run = now[lane]
                if run is None and names_ahead:
                    run = now[lane] = PartRun(
                        name := names_ahead.popleft(),
                        commands,
                        root=root,
                        env=env,
                        well=(well or {}).get(name, (0,)),
                    )
                    _show_what_runs(now)
                if run is not None and run.is_over():
                    print(run.line(), flush=True)
                    done.append(run)
                    now[lane] = None
            time.sleep(_LOOK_EVERY_S)
    finally:
        under_way = [run for run in now if run is not None]
        stop(under_way, patience_s=patience_s)
        for run in under_way:
            run.cut_short()
            print(run.line(), flush=True)
    return sorted(done, key=lambda run: names.index(run.name))


def _show_what_runs(runs: Iterable[PartRun | None]) -> None:
    if sys.stdout.isatty():
        print(f"{'now: ' + ', '.join(run.name for run in runs if run):<60}", end="\r", flush=True)


@contextlib.contextmanager
def own_environment() -> Iterator[dict[str, str]]:
    """Variables with folders of their own: tests touch neither the learner's progress nor their Jupyter settings.

    Python keeps what it compiles, whatever the caller says: else some hundred processes compile the library anew.
    A thread of torch that waits for another one sleeps: many processes share the cores here, and to spin would take
    the core from the one that is waited for.
    """
    with tempfile.TemporaryDirectory(prefix="course-test-") as home:
        own = {"COURSE_HOME": "course", "IPYTHONDIR": "ipython"}
        own |= {"JUPYTER_CONFIG_DIR": "jupyter/config", "JUPYTER_DATA_DIR": "jupyter/data"}
        env = {**os.environ, **{name: str(Path(home, folder)) for name, folder in own.items()}}
        env["PYTHONWARNINGS"] = "ignore:More ranks than cores"  # as in the build: outputs then fit every machine
        env["COURSE_SEATS"] = "off"  # no word of other notebooks, which are tests beside this one
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env.setdefault("OMP_WAIT_POLICY", "passive")
        yield env


def run_parts(names: Sequence[str], *, root: Path, pytest_options: Sequence[str] = ()) -> int:
    """Run parts, all of them whatever fails; 0 when every one passed, 1 otherwise."""
    start_s = time.monotonic()
    with own_environment() as env:
        runs = run_lanes(names, _commands(root, pytest_options), root=root, env=env)
    failed = [run.name for run in runs if not run.passed]
    print(
        f"\n{len(runs) - len(failed)} passed, {len(failed)} failed in {time.monotonic() - start_s:.0f} s",
        end="",
    )
    print(f": {', '.join(failed)}" if failed else "")
    return 1 if failed else 0


def _commands(root: Path, pytest_options: Sequence[str]) -> Commands:
    return lambda name: commands_of(name, root=root, pytest_options=pytest_options)
