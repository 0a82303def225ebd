"""What the system lets this process use: cores and memory, container limits included.

A container or a batch job often sees the host's 64 cores and may use two of them. Linux keeps those limits in
control groups, in one of two forms: version 2 (``cpu.max``, ``memory.max``) or version 1
(``cpu.cfs_quota_us``, ``memory.limit_in_bytes``). A limit may stand at any level above the process, so every
level is read and the smallest wins. Other systems have no such files, and then the host's own numbers hold.
A job of Slurm says its cores in variables, also where no control group enforces them.

Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; Slurm, srun manual, "Output environment
variables".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

__all__ = [
    "available_memory_bytes",
    "memory_bytes",
    "shared_memory_bytes",
    "task_limit",
    "usable_cores",
]

_CGROUP_OF_SELF = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_cores(
    *,
    proc: Path = _CGROUP_OF_SELF,
    root: Path = _CGROUP_ROOT,
    affinity_cores: int | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """How many whole cores this process can keep busy: its affinity, cut down to its CPU quota; at least 1.

    In a job of Slurm no more than the job was given; ``env`` replaces the variables that say so.

    A quota of 1.5 cores counts as 1, since a second busy rank would be held back.
    """
    cores = affinity_cores if affinity_cores is not None else _affinity_cores()
    for folder in _levels("cpu", proc, root):
        quota = _quota_cores(folder)
        if quota is not None:
            cores = min(cores, int(quota))
    return max(1, min(cores, _slurm_cores(os.environ if env is None else env) or cores))


def memory_bytes(*, proc: Path = _CGROUP_OF_SELF, root: Path = _CGROUP_ROOT, host_bytes: int | None = None) -> int:
    """Main memory that this process may use, in bytes: the host's, cut down to the container's limit."""
    total_bytes = host_bytes if host_bytes is not None else psutil.virtual_memory().total
    limits = [limit for limit, _ in _memory_levels(proc, root)]
    return min([total_bytes, *limits])


def available_memory_bytes(
    *, proc: Path = _CGROUP_OF_SELF, root: Path = _CGROUP_ROOT, host_bytes: int | None = None
) -> int:
    """Main memory that is free to take now, in bytes: on the host, and under every container limit."""
    free_bytes = host_bytes if host_bytes is not None else psutil.virtual_memory().available
    headroom = [limit - used for limit, used in _memory_levels(proc, root)]
    return max(0, min([free_bytes, *headroom]))


def shared_memory_bytes(folder: Path = Path("/dev/shm")) -> int | None:
    """The size of the shared memory folder in bytes, or None where the system has no such folder."""
    try:
        sizes = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return sizes.f_frsize * sizes.f_blocks


def task_limit(*, proc: Path = _CGROUP_OF_SELF, root: Path = _CGROUP_ROOT) -> tuple[int, int] | None:
    """The tightest ``pids.max`` above this process, as (limit, tasks there now); None where none is set.

    A task is a thread: a process counts once for each of its threads.
    """
    found = []
    for folder in _levels("pids", proc, root):
        limit, used = _read(folder / "pids.max"), _read(folder / "pids.current")
        if limit.isdigit():
            found.append((int(limit), int(used) if used.isdigit() else 0))
    return min(found, key=lambda pair: pair[0] - pair[1], default=None)


def _affinity_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _slurm_cores(env: Mapping[str, str]) -> int | None:
    """The cores that Slurm gave to this task, or to the whole job here where it has several tasks; None without Slurm.

    A script of a job with several tasks is none of them: it may use what they have together.
    """
    is_one_task = "SLURM_STEP_ID" in env or env.get("SLURM_NTASKS", "1") == "1"
    names = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE") if is_one_task else ("SLURM_CPUS_ON_NODE",)
    found = [env[name] for name in names if env.get(name, "").isdecimal()]
    return int(found[0]) if found else None


def _quota_cores(folder: Path) -> float | None:
    """The CPU quota that stands in one control group, in cores, or None where it sets none."""
    words = _read(folder / "cpu.max").split()
    if len(words) == 2:
        quota, period = words
    else:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:  # "max", "-1" and "" mean no limit
        return None
    return int(quota) / int(period)


def _memory_levels(proc: Path, root: Path) -> Iterator[tuple[int, int]]:
    """Yield (limit, used) in bytes for each group that limits memory; reclaimable cache is not counted."""
    for folder in _levels("memory", proc, root):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if limit.isdigit():
            in_use = int(used) if used.isdigit() else 0
            yield int(limit), max(0, in_use - _reclaimable_bytes(folder))


def _reclaimable_bytes(folder: Path) -> int:
    """The part of the page cache that the kernel gives back when memory runs short, in bytes."""
    for line in _read(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return int(value)
    return 0


def _levels(controller: str, proc: Path, root: Path) -> Iterator[Path]:
    """Yield the control group of this process for one controller, and each group above it up to the mount."""
    for line in _read(proc).splitlines():
        number, names, inner = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not names:
            mounts = [root, root / "unified"]
        elif controller in names.split(","):
            mounts = [root / names, root / controller]
        else:
            continue
        mount = next((folder for folder in mounts if folder.is_dir()), None)
        if mount is None:
            continue
        parts = [part for part in inner.split("/") if part not in ("", "..")]
        # A container often sees its own group as the mount itself, while the path still names the host's
        # tree.
        for depth in range(len(parts), -1, -1):
            folder = mount.joinpath(*parts[:depth])
            if folder.is_dir():
                yield folder


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
