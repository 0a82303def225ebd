"""What this machine has, and what that makes possible: the tier is "cpu", "one gpu" or "many gpus".

``machine()`` looks once per process and opens no CUDA context: GPUs are asked of the driver's management
library, and torch is not imported (its version file is read). So ranks may still be forked afterwards, and
asking takes milliseconds.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from course_lib.devices import container_limits
from course_lib.devices.gpus import Device, GpuLink, find_gpus
from course_lib.devices.rows import ToldInRows
from course_lib.devices.torch_builds import TorchBuild, installed_build, why_unusable

if TYPE_CHECKING:
    import torch

__all__ = ["Device", "GpuLink", "Machine", "Tier", "look", "machine"]

Tier = Literal["cpu", "one gpu", "many gpus"]


@dataclass(frozen=True)
class Machine(ToldInRows):
    """What this process can use of this machine.

    ``devices`` are the GPUs that the installed torch can use; ``unusable_devices`` are present but cannot be
    used, and ``gpu_note`` says why, in a sentence. ``cores`` and ``memory_bytes`` respect affinity and
    container limits. ``shared_memory_bytes`` is None where the system has no /dev/shm. ``torch_version`` is
    None without torch.
    """

    _caption = "This machine"

    cores: int
    memory_bytes: int
    cpu_name: str
    system: str
    python_version: str
    torch_version: str | None
    torch_cuda: str | None = None
    devices: tuple[Device, ...] = ()
    links: tuple[GpuLink, ...] = ()
    shared_memory_bytes: int | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    unusable_devices: tuple[Device, ...] = ()
    gpu_note: str = ""

    @property
    def tier(self) -> Tier:
        """The kind of machine, by the GPUs that can be used."""
        if not self.devices:
            return "cpu"
        return "one gpu" if len(self.devices) == 1 else "many gpus"

    def device_for(self, rank: int) -> torch.device:
        """The device of one rank: its own GPU where there are enough, else a shared one, else the CPU."""
        import torch

        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise ValueError(f"A rank is a whole number from 0 up, and {rank!r} is not. The first rank is 0.")
        if not self.devices:
            return torch.device("cpu")
        return torch.device("cuda", rank % len(self.devices))

    def rows(self) -> list[tuple[str, str]]:
        """The machine as (what, how much) pairs of text, for printing."""
        shared = "none" if self.shared_memory_bytes is None else _size_text(self.shared_memory_bytes)
        rows = [
            ("tier", self.tier),
            ("processor", f"{self.cpu_name}, {self.cores} usable {'core' if self.cores == 1 else 'cores'}"),
            ("memory", f"{_size_text(self.memory_bytes)} (shared memory folder: {shared})"),
        ]
        rows += [(f"GPU {d.index}", f"{d.name}, {_size_text(d.memory_bytes)}") for d in self.devices]
        rows += [
            (f"GPU {n.a} - GPU {n.b}", f"{n.kind} ({n.detail})" if n.detail else n.kind) for n in self.links
        ]
        rows += [("unusable GPU", f"{d.name}, {_size_text(d.memory_bytes)}") for d in self.unusable_devices]
        if self.gpu_note:
            rows.append(("note", self.gpu_note))
        if self.driver:
            rows.append(("driver", f"{self.driver} (up to CUDA {self.driver_cuda or 'unknown'})"))
        pytorch = f"PyTorch {self.torch_version or 'missing'}"
        if self.torch_cuda:
            pytorch += f" for CUDA {self.torch_cuda}"
        rows.append(("software", f"Python {self.python_version}, {pytorch}, {self.system}"))
        return rows


@cache
def _cached_machine() -> Machine:
    return look()


def machine(refresh: bool = False) -> Machine:
    """What this machine has; looked up once per process, again with ``refresh=True``."""
    if refresh:
        _cached_machine.cache_clear()
    return _cached_machine()


def look(
    *,
    env: Mapping[str, str] | None = None,
    nvml: Any = None,
    build: TorchBuild | None = None,
    cgroup_of_self: Path = Path("/proc/self/cgroup"),
    cgroup_root: Path = Path("/sys/fs/cgroup"),
) -> Machine:
    """Look at the machine now. The arguments replace what is read from the system, for tests."""
    build = installed_build() if build is None else build
    gpus = find_gpus(os.environ if env is None else env, nvml)
    reasons = [why_unusable(build, gpus.driver_cuda, device.capability) for device in gpus.devices]
    unusable = tuple(d for d, reason in zip(gpus.devices, reasons, strict=True) if reason)
    usable = tuple(d for d, reason in zip(gpus.devices, reasons, strict=True) if not reason)
    numbers = {device.index for device in usable}
    notes = dict.fromkeys(note for note in (gpus.note, *reasons) if note)
    return Machine(
        cores=container_limits.usable_cores(proc=cgroup_of_self, root=cgroup_root),
        memory_bytes=container_limits.memory_bytes(proc=cgroup_of_self, root=cgroup_root),
        cpu_name=_cpu_name(),
        system=f"{platform.system()} {platform.machine()}",
        python_version=platform.python_version(),
        torch_version=build.version,
        torch_cuda=build.cuda,
        devices=usable,
        links=tuple(link for link in gpus.links if {link.a, link.b} <= numbers),
        shared_memory_bytes=container_limits.shared_memory_bytes(),
        driver=gpus.driver,
        driver_cuda=gpus.driver_cuda,
        unusable_devices=unusable,
        gpu_note=" ".join(notes),
    )


def _size_text(size_bytes: int) -> str:
    """The size of a memory as text, in GiB; below one, in MiB."""
    if size_bytes < 1024**3:
        return f"{size_bytes / 1024**2:.0f} MiB"
    return f"{size_bytes / 1024**3:.1f} GiB".replace(".0 ", " ")


def _cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model") and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"
