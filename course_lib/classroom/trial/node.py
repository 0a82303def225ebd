"""What this machine lets a class have, and has left now: one look, without starting anything."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.devices import Machine, machine
from course_lib.devices.container_limits import available_memory_bytes, task_limit

__all__ = ["Node", "look", "used_gpu_bytes"]

_SHARED = Path("/dev/shm")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Node:
    """The machine of a class. None stands for what the system does not limit, or does not tell.

    ``tasks_left`` are threads that may still begin on the whole machine, and ``tasks_by`` names the limit.
    ``user_tasks`` (ulimit -u) and ``process_files`` (ulimit -n) are limits of one user and of one process, as the
    one who asks has them.
    """

    here: Machine
    free_bytes: int
    homes: Path
    disk_free_bytes: int
    shared_free_bytes: int | None = None
    tasks_left: int | None = None
    tasks_by: str = ""
    user_tasks: int | None = None
    process_files: int | None = None
    node_files_left: int | None = None
    gpu_used_bytes: tuple[int, ...] = ()
    nccl: str | None = None
    load: tuple[float, ...] = ()


def look(homes: Path | None = None, here: Machine | None = None, *, proc: Path = _PROC) -> Node:
    """Look at this machine now; ``homes`` is a folder on the disk that will hold the learners' folders.

    Raises:
        ValueError: ``homes`` is no folder.
    """
    homes = Path.home() if homes is None else homes
    if not homes.is_dir():
        near = next(place for place in homes.absolute().parents if place.is_dir())
        raise ValueError(f"--homes is {str(homes)!r}, and it names a folder that exists. The nearest is {near}.")
    here = machine() if here is None else here
    left, by = _tasks_left(proc)
    return Node(
        here=here,
        free_bytes=available_memory_bytes(),
        homes=homes,
        disk_free_bytes=shutil.disk_usage(homes).free,
        shared_free_bytes=shutil.disk_usage(_SHARED).free if _SHARED.is_dir() else None,
        tasks_left=left,
        tasks_by=by,
        user_tasks=_soft_limit("RLIMIT_NPROC"),
        process_files=_soft_limit("RLIMIT_NOFILE"),
        node_files_left=_node_files_left(proc),
        gpu_used_bytes=used_gpu_bytes() if here.devices else (),
        nccl=_nccl(),
        load=os.getloadavg() if hasattr(os, "getloadavg") else (),
    )


def used_gpu_bytes() -> tuple[int, ...]:
    """The bytes in use on each GPU that the driver tells of, whoever uses them; () where it tells nothing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver: then there is nothing to tell
        return ()
    try:
        return tuple(_used_bytes(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _used_bytes(pynvml: Any, number: int) -> int:
    """0 for a board that does not answer, as one that is lost: no learner is put on it."""
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(number)).used)
    except pynvml.NVMLError:
        return 0


def _tasks_left(proc: Path) -> tuple[int | None, str]:
    """Threads that may still begin here, and the limit that is met first."""
    found = []
    group = task_limit()
    if group is not None:
        found.append((group[0] - group[1], "pids.max of the control group"))
    words = _read(proc / "loadavg").split()
    now = int(words[3].partition("/")[2]) if len(words) > 3 else None
    for name in ("threads-max", "pid_max"):
        limit = _read(proc / "sys" / "kernel" / name)
        if limit.isdigit() and now is not None:
            found.append((int(limit) - now, f"kernel.{name}"))
    return min(found, default=(None, ""))


def _node_files_left(proc: Path) -> int | None:
    words = _read(proc / "sys" / "fs" / "file-nr").split()
    return int(words[2]) - int(words[0]) if len(words) == 3 else None


def _soft_limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else -1
    return None if soft in (-1, resource.RLIM_INFINITY) else soft


def _nccl() -> str | None:
    """The version of the NCCL that torch brings; None where it brings none."""
    try:
        import torch
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_nccl_available()):
            return None
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except Exception:  # a broken torch is told by the doctor
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
