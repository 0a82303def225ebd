"""A class that works at once: so many learners, each with a home and kernels of their own, run the same lessons.

Kernels listen at files in the learner's private folder, not at ports. Everything ends by its handle, whatever happens:
the kernels by Jupyter's, and what they have left behind by the mark that it carries (``trial_user.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nbformat

from course_lib.base.signals import ended_as_by_ctrl_c
from course_lib.classroom.trial.server import measured_server
from course_lib.classroom.trial.trial_user import TrialUser, new_token
from course_lib.classroom.trial.watch import ProcessSample, ResourceWatch
from course_lib.lessons.execute import CellFailedError, kernel_client, run_cell, start_kernel
from course_lib.lessons.kernel_sockets import listen_at_files

__all__ = ["CellFailure", "ClassTrial", "Lap", "run_trial"]

_CELL_LIMIT_S = 900  # a cell that hangs
_WORTH_A_LOOK_S = 0.5  # shorter cells are counted with the next one
_BLOCKED = "blocked:"  # what a cell prints that cannot run here


@dataclass(frozen=True)
class CellFailure:
    """What went wrong for one learner; ``cell`` counts all cells of the lesson from 1, and 0 is the kernel's start."""

    learner: int
    lesson: str
    cell: int
    line: int
    reason: str


@dataclass
class Lap:
    """One learner's way through one lesson. ``rest`` is what they took after the last cell, kernel open."""

    learner: int
    lesson: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    longest_cell: int = 0
    longest_cell_cpu_s: float = 0.0
    longest_cell_wall_s: float = 0.0
    rest: ProcessSample = field(default_factory=ProcessSample)
    blocked: list[str] = field(default_factory=list)


@dataclass
class ClassTrial:
    """What a class did. ``stopped`` says why it did not come to its end; "" where it did."""

    learners: int
    lessons: tuple[str, ...]
    open_lessons: int
    load_before: tuple[float, ...]
    wall_s: float = 0.0
    laps: list[Lap] = field(default_factory=list)
    failures: list[CellFailure] = field(default_factory=list)
    stopped: str = ""
    peaks: dict[tuple[int, str], ProcessSample] = field(default_factory=dict)
    together: ProcessSample = field(default_factory=ProcessSample)
    server: ProcessSample | None = None
    free_at_first_bytes: int = 0
    free_least_bytes: int = 0
    shared_peak_bytes: int = 0
    gpu_peak_bytes: int = 0
    longest_gap_s: float = 0.0  # between two looks at what they take
    disk_bytes_each: int = 0
    left_over: list[str] = field(default_factory=list)

    @property
    def has_fitted(self) -> bool:
        """Whether everybody came to the end of every lesson, without an error."""
        return not self.failures and not self.stopped


def run_trial(
    learners: int,
    notebooks: Mapping[str, Path],
    *,
    open_lessons: int = 1,
    with_server: bool = False,
    cell_limit_s: float = _CELL_LIMIT_S,
    worth_a_look_s: float = _WORTH_A_LOOK_S,
    watch_of: Callable[[str], ResourceWatch] = ResourceWatch,
    tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
) -> ClassTrial:
    """Run ``notebooks`` (label to file), one after another, for so many learners at once.

    Each has ``open_lessons`` kernels open at most. A cell of less than ``worth_a_look_s`` seconds is counted with the
    next one; ``watch_of`` makes the watch of a token. An interrupt ends everything that was begun, and is raised again.
    """
    load = os.getloadavg() if hasattr(os, "getloadavg") else ()
    trial = ClassTrial(learners, tuple(notebooks), open_lessons, load)
    with ended_as_by_ctrl_c():
        _try(trial, notebooks, with_server, watch_of, partial(_Work, cell_limit_s, worth_a_look_s, tell))
    return trial


def _try(
    trial: ClassTrial,
    notebooks: Mapping[str, Path],
    with_server: bool,
    watch_of: Callable[[str], ResourceWatch],
    work_of: Callable[..., _Work],
) -> None:
    token, folder = new_token(), Path(tempfile.mkdtemp(prefix="course-class-"))
    watch = watch_of(token)
    try:
        seats = [TrialUser(number, token, folder / f"{number:02d}") for number in range(1, trial.learners + 1)]
        if with_server:
            trial.server = measured_server(TrialUser(0, token, folder / "00"), watch)
        watch.start()
        work = work_of(trial, seats, notebooks, watch)
        began_s = time.monotonic()
        asyncio.run(work.everybody())
        trial.wall_s = time.monotonic() - began_s
        trial.disk_bytes_each = max(seat.disk_bytes() for seat in seats)
    finally:
        try:
            watch.stop()
            trial.left_over = watch.end_all()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    trial.peaks, trial.together = dict(watch.peaks), watch.together
    trial.free_at_first_bytes, trial.free_least_bytes = watch.free_at_first_bytes, watch.free_least_bytes
    trial.shared_peak_bytes, trial.gpu_peak_bytes = watch.shared_peak_bytes, watch.gpu_peak_bytes
    trial.longest_gap_s = watch.longest_gap_s


@dataclass
class _Work:
    """The learners of a trial, as tasks of one loop."""

    cell_limit_s: float
    worth_a_look_s: float
    tell: Callable[[str], None]
    trial: ClassTrial
    seats: list[TrialUser]
    notebooks: Mapping[str, Path]
    watch: ResourceWatch
    is_stopping: bool = False

    async def everybody(self) -> None:
        """Until all have finished, or memory runs short."""
        loop, low = asyncio.get_running_loop(), asyncio.Event()
        self.watch.on_low_memory = lambda: loop.call_soon_threadsafe(low.set)
        if self.watch.is_low:
            low.set()
        learners = {asyncio.create_task(self._learner(seat)) for seat in self.seats}
        is_low, pending = asyncio.create_task(low.wait()), set(learners)
        try:
            while pending and not low.is_set():
                await asyncio.wait({*pending, is_low}, return_when=asyncio.FIRST_COMPLETED)
                pending = {task for task in learners if not task.done()}
            if pending:
                self.trial.stopped = "memory ran short"
        finally:
            self.is_stopping = True
            for task in (*learners, is_low):
                task.cancel()
            await asyncio.wait(learners)  # each ends its kernels
        for task in learners:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _learner(self, seat: TrialUser) -> None:
        opened: list[_Kernel] = []
        try:
            for label, path in self.notebooks.items():
                while len(opened) >= self.trial.open_lessons:
                    await opened.pop(0).end()
                opened.append(_Kernel(seat, label, path, self.cell_limit_s))
                await self._lesson(seat, label, opened[-1])
        finally:
            for kernel in opened:
                await kernel.end()

    async def _lesson(self, seat: TrialUser, label: str, kernel: _Kernel) -> None:
        lap, began_s, cell = Lap(seat.number, label), time.monotonic(), -1
        try:
            await kernel.start()
            cpu_s, looked_s = 0.0, time.monotonic()
            for cell, code in kernel.cells():
                await kernel.run(code, cell)
                lap.blocked += _blocked(code)
                wall_s = time.monotonic() - looked_s
                if wall_s >= self.worth_a_look_s:
                    look = await asyncio.to_thread(self.watch.look_at, seat.number, label, with_memory=False)
                    _count(lap, cell, look.cpu_s - cpu_s, wall_s)
                    cpu_s, looked_s = look.cpu_s, time.monotonic()
            lap.wall_s = time.monotonic() - began_s
            lap.rest = await asyncio.to_thread(self.watch.look_at, seat.number, label)
        except (CellFailedError, OSError, RuntimeError) as error:
            if self.is_stopping:  # nbclient takes the end of a task for the end of its kernel
                raise asyncio.CancelledError from None
            line = error.line if isinstance(error, CellFailedError) else 0
            reason = str(error) or type(error).__name__
            self.trial.failures.append(CellFailure(seat.number, label, cell + 1, line, reason))
            self.tell(f"learner {seat.number}: {label}, cell {cell + 1}: {reason.splitlines()[0]}")
            return
        self.watch.note((seat.number, label), lap.rest)
        lap.cpu_s = lap.rest.cpu_s
        self.trial.laps.append(lap)
        self.tell(f"learner {seat.number} of {self.trial.learners}: {label} done in {lap.wall_s:.0f} s")


class _Kernel:
    """One open lesson of one learner, from a copy of its notebook in their folder."""

    def __init__(self, seat: TrialUser, label: str, path: Path, cell_limit_s: float) -> None:
        self._seat = seat
        self._copy = seat.notebooks / path.name
        shutil.copyfile(path, self._copy)
        self._notebook = nbformat.read(self._copy, as_version=4)
        self._client: Any = kernel_client(self._notebook, seat.environment(label), cell_timeout_s=cell_limit_s)
        self._manager = self._client.km  # the client lets go of it when the kernel does not start
        self._log = (seat.folder / f"{path.stem}.log").open("w+", encoding="utf-8", errors="replace")

    async def start(self) -> None:
        """Raises KernelStartError where the kernel does not start."""
        listen_at_files(self._manager, self._seat.next_kernel())
        await start_kernel(self._client, folder=self._seat.notebooks, log=self._log)

    def cells(self) -> list[tuple[int, Any]]:
        """The code cells, each with its place among all cells, from 0."""
        return [(i, cell) for i, cell in enumerate(self._notebook.cells) if cell.cell_type == "code"]

    async def run(self, cell: Any, index: int) -> None:
        await run_cell(self._client, cell, index, self._log)

    async def end(self) -> None:
        """Safe to repeat; the kernel is gone afterwards, and its ranks end with it."""
        if self._client.kc is not None:
            self._client.kc.stop_channels()
            self._client.kc = None
        with contextlib.suppress(RuntimeError):  # it never started
            await self._manager.shutdown_kernel(now=True)
        self._log.close()


def _count(lap: Lap, cell: int, cpu_s: float, wall_s: float) -> None:
    if cpu_s > lap.longest_cell_cpu_s:
        lap.longest_cell, lap.longest_cell_cpu_s = cell + 1, cpu_s
    lap.longest_cell_wall_s = max(lap.longest_cell_wall_s, wall_s)


def _blocked(cell: Any) -> list[str]:
    """The lines in which a cell says that it cannot run here."""
    texts = [output.text for output in cell.get("outputs", []) if output.output_type == "stream"]
    return [line for text in texts for line in text.splitlines() if line.startswith(_BLOCKED)]
