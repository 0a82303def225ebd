"""The NVIDIA GPUs of this machine and what joins them, asked of the driver's management library (NVML).

NVML opens no CUDA context, so asking costs no GPU memory and leaves this process free to fork.
``CUDA_VISIBLE_DEVICES`` is obeyed as CUDA obeys it: indices or UUIDs, the list ends at the first entry that
names nothing, a repeated entry empties it.

MIG: a GPU cut into slices counts through its slices, and CUDA shows a process one slice only, the first it is
given. The other slices are ``Gpus.spare``: a seat (``seats.py``) may take one of them in its place.

Sources: NVML API reference; CUDA C++ Programming Guide, "CUDA environment variables"; NVIDIA MIG User Guide.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

__all__ = ["Device", "GpuLink", "Gpus", "find_gpus"]

# Numbers of NVML's C interface that older versions of its Python binding name differently or not at all.
_P2P_READ, _P2P_NVLINK, _P2P_OK = 0, 2, 0
_COMMON_ANCESTOR = {
    0: "on one board",
    10: "through one PCIe switch",
    20: "through several PCIe switches",
    30: "through one host bridge",
    40: "within one CPU socket",
    50: "across CPU sockets",
}


@dataclass(frozen=True)
class Device:
    """One GPU, or one MIG slice, that CUDA shows this process; ``index`` is the number in "cuda:0".

    ``index`` follows the order of the PCI bus, as torch's does wherever all GPUs are of one kind. ``board`` is
    the number that nvidia-smi gives to the GPU, whatever is visible; None where it is not known.
    """

    index: int
    name: str
    memory_bytes: int
    uuid: str
    capability: tuple[int, int] | None = None
    pcie: str = ""
    is_mig_slice: bool = False
    board: int | None = None


@dataclass(frozen=True)
class GpuLink:
    """What joins two GPUs: "NVLink", "PCIe", or "none" (no direct path: copies pass through main memory)."""

    a: int
    b: int
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Gpus:
    """What the driver tells: visible devices, links, driver version, newest CUDA it knows, and a note.

    ``spare`` are MIG slices that this process could be given in place of the one that CUDA shows it.
    """

    devices: tuple[Device, ...] = ()
    spare: tuple[Device, ...] = ()
    links: tuple[GpuLink, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None
    note: str = ""


def find_gpus(env: Mapping[str, str], nvml: Any = None) -> Gpus:
    """Ask the driver for its GPUs; never raises, and says in ``note`` what kept it from answering.

    ``nvml`` is the module ``pynvml``, or something with the same functions.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            missing = "The package nvidia-ml-py is missing, so GPUs cannot be looked for"
            return Gpus(note=f"{missing}: pip install nvidia-ml-py.")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        absent = getattr(error, "value", None) == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return Gpus(note="" if absent else f"The NVIDIA driver does not answer: {error}.")
    try:
        return _ask(nvml, env.get("CUDA_VISIBLE_DEVICES"))
    except nvml.NVMLError as error:
        return Gpus(note=f"The NVIDIA driver answered with an error: {error}.")
    finally:
        nvml.nvmlShutdown()


def _ask(nvml: Any, visible: str | None) -> Gpus:
    handles, boards, silent = _boards(nvml)
    slices = {i: _mig_slices(nvml, handle, boards[i]) for i, handle in enumerate(handles)}
    chosen, spare, note = _choose(boards, slices, visible)
    devices = tuple(replace(device, index=i) for i, (device, _) in enumerate(chosen))
    links = tuple(
        GpuLink(a, b, *_link(nvml, handles, chosen[a], chosen[b])) for a, b in combinations(range(len(chosen)), 2)
    )
    driver = _text(nvml.nvmlSystemGetDriverVersion())
    version = _try(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    driver_cuda = f"{version // 1000}.{version % 1000 // 10}" if version else None
    others = tuple(device for device, _ in spare)
    notes = " ".join(one for one in (note, *silent) if one)
    return Gpus(devices, others, links, driver, driver_cuda, notes)


def _boards(nvml: Any) -> tuple[list[Any], list[Device], list[str]]:
    """Handles and devices of the boards that answer, and a sentence on each that does not.

    NVML counts boards too that this process may not open, as in a container, and such as have failed. CUDA shows
    neither, and numbers the others from 0; ``board`` is the number among all.
    """
    handles, boards, silent = list[Any](), list[Device](), list[str]()
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            boards.append(replace(_device(nvml, handle), board=number))
            handles.append(handle)
        except nvml.NVMLError as error:
            silent.append(f"GPU {number} of nvidia-smi cannot be read, and is left out: {error}.")
    return handles, boards, silent


def _device(nvml: Any, handle: Any) -> Device:
    memory = _try(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _try(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    generation = _try(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    width = _try(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    return Device(
        index=0,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory.total if memory is not None else 0,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        pcie=f"PCIe {generation} x{width}" if generation and width else "",
    )


def _mig_slices(nvml: Any, handle: Any, board: Device) -> list[Device] | None:
    """The slices of a board, or None where it is not cut into slices."""
    mode = _try(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != 1:
        return None
    found = []
    for i in range(_try(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        piece = _try(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, i)
        device = None if piece is None else _try(nvml, _device, nvml, piece)
        if device is not None:
            device = replace(device, capability=board.capability, pcie=board.pcie, board=board.board)
            found.append(replace(device, is_mig_slice=True))
    return found


def _choose(
    boards: list[Device], slices: dict[int, list[Device] | None], visible: str | None
) -> tuple[list[tuple[Device, int]], list[tuple[Device, int]], str]:
    """What CUDA shows, in its order: (device, place of its board in the list); spare slices; a note on the rest."""
    if visible is not None and visible.startswith("MIG-"):
        every = {piece.uuid: (piece, i) for i, pieces in slices.items() for piece in pieces or ()}
        named = [every.get(word.strip()) for word in dict.fromkeys(visible.split(","))]
        if named[0] is None:
            return [], [], f"CUDA_VISIBLE_DEVICES={visible} names no MIG slice of this machine."
        return [named[0]], [one for one in named[1:] if one is not None], ""
    numbers = list(range(len(boards))) if visible is None else _numbers(visible, [b.uuid for b in boards])
    whole = [(boards[i], i) for i in numbers if slices[i] is None]
    if whole or not numbers:
        hidden = f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU." if boards and not numbers else ""
        return whole, [], hidden
    pieces = [(piece, i) for i in numbers for piece in slices[i] or ()]
    if not pieces:
        return [], [], "MIG is on, and no GPU has a slice, so CUDA shows none."
    return (
        pieces[:1],
        pieces[1:],
        (
            "MIG is on: a process sees one slice of a GPU, so the course counts one GPU. "
            "Switch MIG off to use whole GPUs in several ranks."
        ),
    )


def _numbers(visible: str, uuids: list[str]) -> list[int]:
    chosen: list[int] = []
    for entry in visible.split(","):
        word = entry.strip()
        number = re.match(r"\+?\d+", word)
        if word.startswith("GPU-"):
            matches = [i for i, uuid in enumerate(uuids) if uuid.startswith(word)]
            index = matches[0] if len(matches) == 1 else -1
        else:
            index = int(number.group()) if number else -1
        if index in chosen:
            return []
        if not 0 <= index < len(uuids):
            break
        chosen.append(index)
    return chosen


def _link(nvml: Any, handles: list[Any], a: tuple[Device, int], b: tuple[Device, int]) -> tuple[str, str]:
    """The kind of the path between two devices, and its detail."""
    (left, i), (right, j) = a, b
    if _try(nvml, nvml.nvmlDeviceGetP2PStatus, handles[i], handles[j], _P2P_NVLINK) == _P2P_OK:
        count = _nvlinks(nvml, handles[i], handles[j])
        return "NVLink", f"{count} links" if count != 1 else "1 link"
    ancestor = _try(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, handles[i], handles[j])
    widths = " and ".join(dict.fromkeys(d.pcie for d in (left, right) if d.pcie))
    detail = ", ".join(part for part in (widths, _COMMON_ANCESTOR.get(ancestor, "")) if part)
    peer = _try(nvml, nvml.nvmlDeviceGetP2PStatus, handles[i], handles[j], _P2P_READ)
    if peer in (None, _P2P_OK):
        return "PCIe", detail
    return "none", ", ".join(part for part in (detail, "copies pass through main memory") if part)


def _nvlinks(nvml: Any, left: Any, right: Any) -> int:
    """Active NVLinks between two GPUs; where they meet in a switch, the smaller number of links into it."""
    bus = _text(nvml.nvmlDeviceGetPciInfo(right).busId)
    ends = [_link_ends(nvml, handle) for handle in (left, right)]
    direct = sum(end == bus for end in ends[0])
    return direct or min(len(end) for end in ends)


def _link_ends(nvml: Any, handle: Any) -> list[str]:
    ends = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if _try(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) == 1:
            remote = _try(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            ends.append(_text(remote.busId) if remote is not None else "")
    return ends


def _try(nvml: Any, ask: Any, *args: Any) -> Any:
    """The answer, or None where this GPU or driver does not support the question."""
    try:
        return ask(*args)
    except nvml.NVMLError:
        return None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
