"""What a process can tell of its machine by itself, without a message to anybody."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from pathlib import Path
from typing import Any

import torch

from .gpus import gpus_of_this_machine, unreachable_pairs, xid_errors

__all__ = ["QUIET", "facts_of_this_process"]

QUIET = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"  # set by the check itself, so not looked at

_PREFIXES = ("NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "OMP_", "UCX_", "FI_")
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PSK")


def facts_of_this_process(is_first_on_node: bool) -> dict[str, Any]:
    """Plain values that can be pickled; ``None`` for what cannot be found out here.

    What is the same for all processes of a machine is looked up by its first one alone.
    """
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "node": os.environ.get("GROUP_RANK", "0"),
        "versions": _versions(),
        "variables": _variables(dict(os.environ)),
        "open_files": _limit("RLIMIT_NOFILE"),
        "locked_memory": _limit("RLIMIT_MEMLOCK"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    if is_first_on_node:
        total, free = _memory(Path("/proc/meminfo"))
        facts |= {
            "memory_bytes": total,
            "free_bytes": free,
            "shm_bytes": shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else None,
            "has_rdma": any(Path("/sys/class/infiniband").glob("*")),
            "gpus": gpus_of_this_machine(),
            "unreachable": unreachable_pairs(),
            "xid": xid_errors(),
        }
    return facts


def _versions() -> dict[str, str]:
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else ()
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "CUDA": str(torch.version.cuda),
        "NCCL": ".".join(map(str, nccl)) if nccl else "None",
    }


def _variables(environment: dict[str, str]) -> dict[str, str]:
    """Settings of libraries; no secrets, and nothing that differs from rank to rank by itself."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES)
        and not name.startswith("TORCHELASTIC_")
        and name != QUIET
        and not any(word in name for word in _SECRETS)
    }


def _limit(name: str) -> int | None:
    """A soft limit of this process, -1 for none; ``None`` on a system without such limits."""
    try:
        import resource
    except ImportError:
        return None  # Windows
    soft = resource.getrlimit(getattr(resource, name))[0]
    return -1 if soft == resource.RLIM_INFINITY else soft


def _memory(path: Path) -> tuple[int | None, int | None]:
    """Bytes of memory, and of what may be taken without swapping; ``None`` where the system has no such file."""
    try:
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
        return tuple(1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]
    except (OSError, ValueError, KeyError):
        return None, None
