"""What the learners of a trial take while they work: processes found by their mark, looked at again and again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import psutil

from course_lib.classroom.trial.node import used_gpu_bytes
from course_lib.classroom.trial.trial_user import MARK
from course_lib.devices.container_limits import available_memory_bytes, memory_bytes

__all__ = ["LOWEST_FREE", "ProcessSample", "ResourceWatch"]

LOWEST_FREE = 0.05  # of the memory: a trial ends rather than take more
_EVERY_S = 1.0
_SHARE = 0.2  # of the time, at most, goes into looking
_END_LIMIT_S = 10.0


@dataclass(frozen=True)
class ProcessSample:
    """One learner's processes at one moment, or the most of each over several moments."""

    memory_bytes: int = 0
    processes: int = 0
    threads: int = 0
    descriptors: int = 0
    process_descriptors: int = 0
    cpu_s: float = 0.0

    def most(self, other: ProcessSample) -> ProcessSample:
        """The larger of each."""
        return replace(self, **{name: max(getattr(self, name), value) for name, value in vars(other).items()})


class ResourceWatch(threading.Thread):
    """Looks at every process with the mark of ``token``; ``on_low_memory`` is called once, from this thread."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="course-class-watch", daemon=True)
        self._token, self._clock = token, clock
        self.on_low_memory: Callable[[], object] = lambda: None
        self._known: dict[tuple[int, float], str | None] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.peaks: dict[tuple[int, str], ProcessSample] = {}  # by learner and lesson
        self.together = ProcessSample()
        self._shared_first, self.shared_peak_bytes = _shared_used_bytes(), 0
        self.free_at_first_bytes = self.free_least_bytes = available_memory_bytes()
        self._lowest_bytes = int(LOWEST_FREE * memory_bytes())
        self._gpu_first, self.gpu_peak_bytes = sum(used_gpu_bytes()), 0
        self.is_low = False
        self.longest_gap_s = 0.0  # between two looks at everybody

    def run(self) -> None:
        last_s = self._clock()
        while not self._ended.is_set():
            began_s = self._clock()
            self.longest_gap_s, last_s = max(self.longest_gap_s, began_s - last_s), began_s
            self._look_round()
            spent_s = self._clock() - began_s
            self._ended.wait(max(_EVERY_S, spent_s * (1 / _SHARE - 1)))

    def stop(self) -> None:
        """Safe to repeat."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def look_at(self, number: int, lesson: str, *, with_memory: bool = True) -> ProcessSample:
        """One learner's kernel of one lesson, with its ranks, now."""
        ours = [process for whose, process in self.processes() if whose == (number, lesson)]
        return _look(ours, with_memory)

    def processes(self) -> Iterator[tuple[tuple[int, str], psutil.Process]]:
        """Every living process of the trial, with its learner's number and its lesson."""
        for pid in psutil.pids():
            try:
                process = psutil.Process(pid)
                mark = self._mark(process)
            except psutil.Error:
                continue
            if mark is not None and mark.startswith(f"{self._token}:"):
                _, number, lesson = mark.split(":", 2)
                yield (int(number), lesson), process

    def end_all(self) -> list[str]:
        """End whatever the trial has left, each by its handle; what was still there, in words."""
        left, told = [process for _, process in self.processes()], []
        try:
            psutil.wait_procs(left, timeout=_END_LIMIT_S)
        finally:  # a second Ctrl-C does not wait
            for process in left:
                with contextlib.suppress(psutil.Error):
                    if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                        told.append(f"{process.pid} {' '.join(process.cmdline()[:4]) or process.name()}")
                        process.kill()  # psutil looks whether it is still the same process
        psutil.wait_procs(left, timeout=_END_LIMIT_S)
        return told

    def _look_round(self) -> None:
        found: dict[tuple[int, str], list[psutil.Process]] = {}
        for whose, process in self.processes():
            found.setdefault(whose, []).append(process)
        looks = {}
        for whose, processes in found.items():
            looks[whose] = _look(processes, with_memory=True)
            self._heed_memory()
        for whose, look in looks.items():
            self.note(whose, look)
        with self._lock:
            self.together = self.together.most(_sum(looks.values()))
        self.shared_peak_bytes = max(self.shared_peak_bytes, _shared_used_bytes() - self._shared_first)
        self.gpu_peak_bytes = max(self.gpu_peak_bytes, sum(used_gpu_bytes()) - self._gpu_first)
        self._heed_memory()

    def note(self, whose: tuple[int, str], look: ProcessSample) -> None:
        """Count a look among those of a learner's lesson; from any thread."""
        with self._lock:
            self.peaks[whose] = self.peaks.get(whose, ProcessSample()).most(look)

    def _heed_memory(self) -> None:
        free = available_memory_bytes()
        self.free_least_bytes = min(self.free_least_bytes, free)
        if free < self._lowest_bytes and not self.is_low:
            self.is_low = True
            self.on_low_memory()

    def _mark(self, process: psutil.Process) -> str | None:
        key = (process.pid, process.create_time())
        if key not in self._known:
            if hasattr(os, "getuid") and process.uids().real != os.getuid():
                return self._known.setdefault(key)  # another user's, and not our business
            mark = process.environ().get(MARK)
            if mark is None and process.create_time() > time.time() - 5:
                return None  # it may be about to begin a program of ours
            self._known[key] = mark
        return self._known[key]


def _look(processes: Iterable[psutil.Process], with_memory: bool) -> ProcessSample:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error), process.oneshot():
            times, descriptors = process.cpu_times(), process.num_fds()
            # with those of its children that have ended
            cpu_s = sum((times.user, times.system, times.children_user, times.children_system))
            size = _share_bytes(process) if with_memory else 0
            found.append(ProcessSample(size, 1, process.num_threads(), descriptors, descriptors, cpu_s))
    return _sum(found)


def _share_bytes(process: psutil.Process) -> int:
    """The proportional share of memory, where the system tells it; else what is this process's alone."""
    info = process.memory_full_info()
    return int(getattr(info, "pss", info.uss))


def _sum(looks: Iterable[ProcessSample]) -> ProcessSample:
    total = ProcessSample()
    for look in looks:
        added = {name: getattr(total, name) + value for name, value in vars(look).items()}
        most = max(total.process_descriptors, look.process_descriptors)
        total = ProcessSample(**{**added, "process_descriptors": most})
    return total


def _shared_used_bytes() -> int:
    """What /dev/shm holds now, whoever put it there."""
    with contextlib.suppress(OSError):
        return psutil.disk_usage("/dev/shm").used
    return 0
