"""How many learners fit: a limit for each thing that may run out, with its formula, and the one that is met first.

A limit has the form: learners = (what is left - what is kept back) / what one of them takes. With ``k`` lessons open
each, one is at its peak and the others are at rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.classroom.trial.node import Node
from course_lib.classroom.trial.resource_use import Taken
from course_lib.devices import Device
from course_lib.meter.units import bytes_text

__all__ = ["CONTEXT_BYTES", "PATIENCE_S", "Limit", "first_met", "limits", "wait_s"]

KEPT_BACK = 0.1  # of memory, disk and GPUs: for the system, for page tables, and for what no trial met
CONTEXT_BYTES = 500 << 20  # of GPU memory for each process that uses the GPU: assumed, where no trial measured it
# Of threads that grow with the cores, in a lesson: numpy's twice, and torch's.
_POOLS, _MOST_OF_A_POOL = 3, 64
PATIENCE_S = 60.0  # the longest wait for a cell that a class bears


@dataclass(frozen=True)
class Limit:
    """``formula`` is the calculation with its numbers; ``each`` what a learner takes, ``left`` what all may take."""

    name: str
    learners: int | None  # that fit; None where nothing limits them
    detail: str
    formula: str = ""
    left: float = 0.0
    each: float = 0.0
    unit: str = ""

    def short_by(self, learners: int) -> float:
        """How much more there has to be for so many learners."""
        return max(0.0, learners * self.each - self.left)


def limits(node: Node, taken: Taken, open_lessons: int) -> list[Limit]:
    """Every limit of this machine, in the order of the report."""
    found = [_memory(node, taken, open_lessons), _shared(node, taken), *_tasks(node, taken, open_lessons)]
    found += [*_files(node, taken, open_lessons), _disk(node, taken)]
    if node.here.devices:
        found.append(_gpus(node, taken, open_lessons))
    return found


def first_met(found: list[Limit]) -> Limit | None:
    """The limit that lets in the fewest; None where nothing limits them."""
    bounded = [limit for limit in found if limit.learners is not None]
    return min(bounded, key=lambda limit: limit.learners or 0, default=None)


def wait_s(node: Node, taken: Taken, learners: int) -> float:
    """How long the longest cell takes if all of them run it at the same moment: cores are shared out."""
    return learners * taken.most("longest_cell_cpu_s") / node.here.cores


def _fit(left: float, each: float) -> int | None:
    return None if each <= 0 else max(0, math.floor(left / each + 1e-9))


def _memory(node: Node, taken: Taken, open_lessons: int) -> Limit:
    kept = int(KEPT_BACK * node.here.memory_bytes)
    left = node.free_bytes - kept
    peak, rest, server = taken.most("peak_bytes"), taken.most("rest_bytes"), taken.server.peak_bytes
    each = server + peak + (open_lessons - 1) * rest
    fits = _fit(left, each)
    terms = f"{bytes_text(peak)} a lesson at its peak ({taken.lesson_with_most('peak_bytes')})"
    if open_lessons > 1:
        terms += f" + {open_lessons - 1} x {bytes_text(rest)} open and at rest"
    if server:
        terms += f" + {bytes_text(server)} JupyterLab"
    formula = f"({bytes_text(node.free_bytes)} free - {bytes_text(kept)} kept back) / ({terms}) = {fits}"
    detail = f"{bytes_text(node.free_bytes)} of {bytes_text(node.here.memory_bytes)} free"
    return Limit("memory", fits, detail, formula, left, each, "bytes")


def _shared(node: Node, taken: Taken) -> Limit:
    if node.shared_free_bytes is None:
        return Limit("shared memory", None, "this system has no /dev/shm, and needs none")
    detail = f"/dev/shm has {bytes_text(node.shared_free_bytes)} free"
    if not taken.shared_bytes:
        return Limit("shared memory", None, f"{detail}; these lessons took none of it in the trial")
    fits = _fit(node.shared_free_bytes, taken.shared_bytes)
    formula = f"{bytes_text(node.shared_free_bytes)} free / {bytes_text(taken.shared_bytes)} = {fits}"
    return Limit("shared memory", fits, detail, formula, node.shared_free_bytes, taken.shared_bytes, "bytes")


def _tasks(node: Node, taken: Taken, open_lessons: int) -> Iterator[Limit]:
    """Threads: of the whole machine, and of one user. Linux counts a process once for each thread."""
    more_cores = max(0, node.here.cores - taken.trial.cores)
    lesson = int(taken.most("threads")) + _POOLS * min(more_cores, _MOST_OF_A_POOL)
    server = taken.server.threads
    each = open_lessons * lesson + server
    terms = f"{open_lessons} x {lesson} a lesson + {server} JupyterLab" if server else f"{open_lessons} x {lesson}"
    processes = int(taken.most("processes"))
    if node.tasks_left is None:
        yield Limit("processes", None, "the system tells no limit")
    else:
        fits = _fit(node.tasks_left, each)
        formula = f"{node.tasks_left:,} threads may begin / ({terms}) = {fits}"
        detail = f"{node.tasks_left:,} threads may still begin ({node.tasks_by}); a lesson has {processes} processes"
        yield Limit("processes", fits, detail, formula, node.tasks_left, each, "threads")
    if node.user_tasks is not None:
        enough = each <= node.user_tasks
        detail = f"a user may have {node.user_tasks:,} threads (ulimit -u); a learner takes {each:,}"
        yield Limit("each user", None if enough else 0, detail, "", node.user_tasks, each, "threads a user")


def _files(node: Node, taken: Taken, open_lessons: int) -> Iterator[Limit]:
    """Descriptors: of one process, and of the whole machine."""
    most = int(taken.most("process_descriptors"))
    if node.process_files is not None:
        enough = most <= node.process_files
        detail = f"a process may open {node.process_files:,} (ulimit -n); the busiest one opens {most:,}"
        yield Limit("open files", None if enough else 0, detail, "", node.process_files, most, "files a process")
    if node.node_files_left is not None:
        each = open_lessons * int(taken.most("descriptors")) + taken.server.descriptors
        fits = _fit(node.node_files_left, each)
        left = "no end of files" if node.node_files_left > 10**9 else f"{node.node_files_left:,} files"
        detail = f"the machine may open {left} more (fs.file-max); a learner takes {each:,}"
        yield Limit("files in all", fits, detail, f"{left} / {each:,} = {fits}", node.node_files_left, each, "files")


def _disk(node: Node, taken: Taken) -> Limit:
    left = (1 - KEPT_BACK) * node.disk_free_bytes
    fits = _fit(left, taken.disk_bytes)
    formula = f"0.9 x {bytes_text(node.disk_free_bytes)} free / {bytes_text(taken.disk_bytes)} = {fits}"
    detail = f"{bytes_text(node.disk_free_bytes)} free at {node.homes}; a learner writes {bytes_text(taken.disk_bytes)}"
    return Limit("disk", fits, detail, formula, left, taken.disk_bytes, "bytes")


def _gpus(node: Node, taken: Taken, open_lessons: int) -> Limit:
    """All GPUs together, as learners are spread over them: each process of a lesson may open a context."""
    devices = node.here.devices
    free = sum(max(0, gpu.memory_bytes - _used_bytes(node, gpu)) for gpu in devices)
    left = (1 - KEPT_BACK) * free
    if taken.gpu_bytes:
        each = open_lessons * taken.gpu_bytes
        terms = f"{open_lessons} x {bytes_text(taken.gpu_bytes)} as measured"
    else:
        contexts = max(1, int(taken.most("processes")) - 2)  # without the fork server and what tracks its resources
        each = open_lessons * contexts * CONTEXT_BYTES
        terms = f"{open_lessons} x {contexts} processes x {bytes_text(CONTEXT_BYTES)} a context (assumed)"
    fits = _fit(left, each)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in devices))
    detail = f"{len(devices)} ({names}), {bytes_text(free)} free in all"
    return Limit("GPUs", fits, detail, f"0.9 x {bytes_text(free)} / ({terms}) = {fits}", left, each, "bytes")


def _used_bytes(node: Node, gpu: Device) -> int:
    """What is in use on its board; 0 where the driver tells nothing of it. A MIG slice counts with its whole board.

    The driver tells of every board in its own order, and ``gpu`` is one of those that are shown to us.
    """
    if gpu.board is None or gpu.board >= len(node.gpu_used_bytes):
        return 0
    return node.gpu_used_bytes[gpu.board]
