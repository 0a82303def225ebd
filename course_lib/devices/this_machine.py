"""What this machine has, and what that makes possible: the tier is "cpu", "one gpu" or "many gpus".

``machine()`` looks once per process and opens no CUDA context: GPUs are asked of the driver's management
library, and torch is not imported (its version file is read). So ranks may still be forked afterwards, and
asking takes milliseconds. ``seated()`` is the same with this process's seat taken (``seats.py``): whoever is
about to compute asks so.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from course_lib.devices import container_limits, gpu_choice, seats
from course_lib.devices.gpus import Device, GpuLink, Gpus, find_gpus
from course_lib.devices.rows import ToldInRows
from course_lib.devices.torch_builds import TorchBuild, installed_build, why_unusable

if TYPE_CHECKING:
    import torch

__all__ = ["Device", "GpuLink", "Machine", "Tier", "look", "machine", "seated"]

Tier = Literal["cpu", "one gpu", "many gpus"]


@dataclass(frozen=True)
class Machine(ToldInRows):
    """What this process can use of this machine.

    ``devices`` are the GPUs that the installed torch can use; ``unusable_devices`` are present but cannot be
    used, and ``gpu_note`` says why, in a sentence. ``cores`` and ``memory_bytes`` respect affinity and
    container limits. ``shared_memory_bytes`` is None where the system has no /dev/shm. ``torch_version`` is
    None without torch. ``spare_devices`` are those that a seat may take in place of some of ``devices``;
    ``is_narrowed`` says that CUDA shows others than these; ``refused_choice`` is what is wrong with
    ``COURSE_GPUS``, in a sentence.
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
    spare_devices: tuple[Device, ...] = ()
    is_narrowed: bool = False
    refused_choice: str = ""

    @property
    def tier(self) -> Tier:
        """The kind of machine, by the GPUs that can be used."""
        if not self.devices:
            return "cpu"
        return "one gpu" if len(self.devices) == 1 else "many gpus"

    def device_for(self, rank: int) -> torch.device:
        """The device of one rank: its own GPU where there are enough, else a shared one, else the CPU.

        Takes this process's seat, so that "cuda:0" is the GPU that the fewest others of the course use.
        """
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise ValueError(f"A rank is a whole number from 0 up, and {rank!r} is not. The first rank is 0.")
        self.sit(rank + 1)
        import torch

        if not self.devices:
            return torch.device("cpu")
        return torch.device("cuda", rank % len(self.devices))

    def sit(self, num_gpus: int) -> None:
        """Take this process's seat, or more GPUs of it, for ``num_gpus`` at once. Safe to repeat.

        Raises ``ValueError`` with a sentence for a ``COURSE_GPUS`` that cannot be obeyed.
        """
        if self.refused_choice:
            raise gpu_choice.RefusedChoice(self.refused_choice)
        has_changed = seats.take(self.devices, self.spare_devices, num_gpus=num_gpus, is_narrowed=self.is_narrowed)
        if has_changed:
            _cached_machine.cache_clear()  # the same GPUs have other numbers now

    def rows(self) -> list[tuple[str, str]]:
        """The machine as (what, how much) pairs of text, for printing."""
        shared = "none" if self.shared_memory_bytes is None else _size_text(self.shared_memory_bytes)
        rows = [
            ("tier", self.tier),
            ("processor", f"{self.cpu_name}, {self.cores} usable {'core' if self.cores == 1 else 'cores'}"),
            ("memory", f"{_size_text(self.memory_bytes)} (shared memory folder: {shared})"),
        ]
        rows += [(f"GPU {d.index}", f"{d.name}, {_size_text(d.memory_bytes)}{_number(d)}") for d in self.devices]
        rows += [(f"GPU {n.a} - GPU {n.b}", f"{n.kind} ({n.detail})" if n.detail else n.kind) for n in self.links]
        rows += [("unusable GPU", f"{d.name}, {_size_text(d.memory_bytes)}") for d in self.unusable_devices]
        if self.gpu_note:
            rows.append(("note", self.gpu_note))
        if self.driver:
            rows.append(("driver", f"{self.driver} (up to CUDA {self.driver_cuda or 'unknown'})"))
        pytorch = f"PyTorch {self.torch_version or 'missing'}"
        if self.torch_cuda:
            pytorch += f" for CUDA {self.torch_cuda}"
        others = seats.survey().others
        if others:
            rows.append(("also here", f"{others} of this course"))
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


def seated(num_gpus: int) -> Machine:
    """What this machine has, as seen from this process's seat, which it takes for ``num_gpus`` GPUs at once.

    Raises ``ValueError`` with a sentence for a ``COURSE_GPUS`` that cannot be obeyed.
    """
    machine().sit(num_gpus)
    return machine()


def look(
    *,
    env: Mapping[str, str] | None = None,
    nvml: Any = None,
    build: TorchBuild | None = None,
    cgroup_of_self: Path = Path("/proc/self/cgroup"),
    cgroup_root: Path = Path("/sys/fs/cgroup"),
) -> Machine:
    """Look at the machine now. The arguments replace what is read from the system, for tests."""
    env = os.environ if env is None else env
    build = installed_build() if build is None else build
    gpus = find_gpus(env, nvml)
    shown = (*gpus.devices, *gpus.spare)
    reasons = {gpu.uuid: why_unusable(build, gpus.driver_cuda, gpu.capability) for gpu in shown}
    choice, refused = _chosen(shown, env)
    usable = [gpu for gpu in choice.devices if not reasons[gpu.uuid]]
    at_once = len(gpus.devices) if gpus.spare else len(usable)
    devices = usable[:at_once] if choice.most is None else usable[: min(at_once, choice.most)]
    notes = dict.fromkeys(note for note in (choice.note or gpus.note, refused, *reasons.values()) if note)
    return Machine(
        cores=container_limits.usable_cores(proc=cgroup_of_self, root=cgroup_root, env=env),
        memory_bytes=container_limits.memory_bytes(proc=cgroup_of_self, root=cgroup_root),
        cpu_name=_cpu_name(),
        system=f"{platform.system()} {platform.machine()}",
        python_version=platform.python_version(),
        torch_version=build.version,
        torch_cuda=build.cuda,
        devices=tuple(replace(gpu, index=i) for i, gpu in enumerate(devices)),
        links=_links_among(devices, gpus),
        shared_memory_bytes=container_limits.shared_memory_bytes(),
        driver=gpus.driver,
        driver_cuda=gpus.driver_cuda,
        unusable_devices=tuple(gpu for gpu in gpus.devices if reasons[gpu.uuid]),
        gpu_note=" ".join(notes),
        spare_devices=tuple(usable[len(devices) :]),
        is_narrowed=_is_narrowed(devices, choice, gpus),
        refused_choice=refused,
    )


def _chosen(shown: tuple[Device, ...], env: Mapping[str, str]) -> tuple[gpu_choice.Choice, str]:
    """What ``COURSE_GPUS`` and Slurm leave; nothing, and a sentence, where that cannot be understood."""
    try:
        return gpu_choice.choose(shown, env), ""
    except ValueError as error:
        return gpu_choice.Choice(()), str(error)


def _is_narrowed(devices: list[Device], choice: gpu_choice.Choice, gpus: Gpus) -> bool:
    """Whether CUDA would show other GPUs than ``devices``, by somebody's choice or since torch cannot use them."""
    was_chosen = choice.most is not None or len(choice.devices) < len(gpus.devices) + len(gpus.spare)
    return (bool(devices) or was_chosen) and [gpu.uuid for gpu in devices] != [g.uuid for g in gpus.devices]


def _links_among(devices: list[Device], gpus: Gpus) -> tuple[GpuLink, ...]:
    """The links between these GPUs, which are numbered in this order."""
    number = {gpu.index: i for i, gpu in enumerate(devices)} if not gpus.spare else {}
    return tuple(
        replace(link, a=min(ends), b=max(ends))
        for link in gpus.links
        if len(ends := [number[end] for end in (link.a, link.b) if end in number]) == 2
    )


def _number(gpu: Device) -> str:
    """What nvidia-smi calls a GPU, where that is another number."""
    return "" if gpu.board in (None, gpu.index) else f" (GPU {gpu.board} of nvidia-smi)"


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
