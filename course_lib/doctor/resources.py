"""Is there enough: cores, memory, shared memory, room on the disks."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from course_lib.devices import Machine
from course_lib.devices.container_limits import available_memory_bytes
from course_lib.doctor.finding import Finding
from course_lib.meter.units import bytes_text

__all__ = ["check_cores", "check_folder", "check_memory", "check_shared_memory"]

_GIB = 1 << 30
_MIB = 1 << 20


def check_cores(here: Machine) -> Finding:
    """Cores that this process may use."""
    if here.cores == 1:
        advice = (
            "Ranks take turns on one core. Everything runs, but timings mean little. Give the machine two or "
            "more cores."
        )
        return Finding("cores", "warning", f"1 usable, {here.cpu_name}", advice)
    return Finding("cores", "ok", f"{here.cores} usable, {here.cpu_name}")


def check_memory(here: Machine, free_bytes: int | None = None) -> Finding:
    """Main memory: the lessons want about 2 GiB free."""
    free = available_memory_bytes() if free_bytes is None else free_bytes
    detail = f"{bytes_text(here.memory_bytes)}, {bytes_text(free)} of it free"
    if free < _GIB // 2:
        return Finding("memory", "blocked", detail, "Close other programs: four ranks need about 0.5 GiB.")
    if free < 2 * _GIB:
        return Finding("memory", "warning", detail, "Close other programs: the larger lessons want 2 GiB free.")
    return Finding("memory", "ok", detail)


def check_shared_memory(here: Machine, free_bytes: int | None = None) -> Finding:
    """/dev/shm, through which data loader workers and NCCL's ranks pass tensors."""
    size = here.shared_memory_bytes
    if size is None:
        return Finding("shared memory", "ok", "this system has no /dev/shm, and needs none")
    if size < _GIB:
        return Finding(
            "shared memory",
            "warning",
            f"/dev/shm holds {bytes_text(size)}",
            "Many ranks or data loader workers may fail with a bus error. In a container: docker run "
            "--shm-size=2g; on your own machine, as root: mount -o remount,size=2G /dev/shm.",
        )
    detail = f"/dev/shm holds {bytes_text(size)}"
    free = shutil.disk_usage("/dev/shm").free if free_bytes is None else free_bytes
    if free < 100 * _MIB:
        return Finding(
            "shared memory",
            "warning",
            f"{detail}, {bytes_text(free)} free",
            "It is full: data loader workers fail there with 'No space left on device' or a bus error. See what lies "
            "in it, by ls -l /dev/shm, and remove what nobody uses.",
        )
    return Finding("shared memory", "ok", detail)


def check_folder(name: str, folder: Path, free_bytes: int | None = None) -> Finding:
    """A folder that must take new files, with room for them."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding(name, "blocked", f"{folder} takes no new file ({error.strerror})", _writable_advice(name))
    free = shutil.disk_usage(existing).free if free_bytes is None else free_bytes
    detail = f"{folder}, {bytes_text(free)} free"
    if free < 100 * _MIB:
        return Finding(name, "blocked", detail, "The disk is full: free at least 1 GiB.")
    if free < _GIB:
        return Finding(name, "warning", detail, "The disk is nearly full: free at least 1 GiB.")
    return Finding(name, "ok", detail)


def _writable_advice(name: str) -> str:
    if name == "temporary folder":
        return "Set TMPDIR to a folder that you may write to."
    if name == "course's own folders":
        return "Set COURSE_HOME to a folder that you may write to; progress and measurements are kept there."
    if name == "your lessons":
        return "Set COURSE_FOLDER to a folder that you may write to; `course lab` puts your lessons there."
    return "Copy the course to a folder that you may write to."
