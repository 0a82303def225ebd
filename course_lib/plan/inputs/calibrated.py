"""A cluster from the file that ``calibrate()`` keeps: this machine by what it did, where others are by data sheets.

Of the file the planner uses: the rate of matrix products and the bandwidth of memory, of a GPU, or of one core where
there is none; and the link between two ranks, its bandwidth and its latency. How many GPUs there are stands in the
name under which the file keeps them. What it does not tell is asked for: the memory of one GPU, where the machine is
none that we know by name. What several ranks got at once, and how noisy it was, is not used; nor does a calibration
know what leaves a machine, so a plan from it is for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.foreign_text import one_line
from course_lib.base.named_file import json_of
from course_lib.cost.collectives.machines import MACHINES
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import KINDS, Constants

__all__ = ["Calibrated", "read_calibrated"]

_GB = 1e9


@dataclass(frozen=True)
class Calibrated:
    """A machine as it was measured; ``memory_bytes`` of one GPU, None where its name tells us nothing."""

    name: str
    devices: int  # GPUs, or cores where there are none
    memory_bytes: int | None
    peak_flops_per_s: float
    dtype: str
    memory_bandwidth_bytes_per_s: float
    link_bandwidth_bytes_per_s: float
    link_latency_s: float
    backend: str

    def cluster(self, gpus: int | None = None, *, memory_bytes: float | None = None) -> ClusterSpec:
        """``gpus`` devices of it; ValueError for more than there are, and where nobody tells their memory."""
        gpus = self.devices if gpus is None else gpus
        if gpus > self.devices:
            raise ValueError(
                f"gpus is {gpus}; the calibration is of one machine with {self.devices}. The nearest is {self.devices}."
            )
        size_bytes = self.memory_bytes or memory_bytes
        if size_bytes is None:
            raise ValueError(
                "A calibration does not say how much memory a device has. Give --memory in GB, such as --memory 24."
            )
        return ClusterSpec(
            name=self.name,
            gpus=gpus,
            node_size=self.devices,
            domain_size=self.devices,
            memory_bytes=round(size_bytes),
            peak_flops_per_s=self.peak_flops_per_s,
            memory_bandwidth_bytes_per_s=self.memory_bandwidth_bytes_per_s,
            domain_bandwidth_bytes_per_s=self.link_bandwidth_bytes_per_s,
            node_bandwidth_bytes_per_s=self.link_bandwidth_bytes_per_s,
        )

    def constants(self, typical: Constants) -> Constants:
        """Typical ones, but rates that were measured are reached: their shares are the largest that there are."""
        latency, kind = self.link_latency_s, KINDS["latency_s"]
        known = vars(typical) | {
            "matmul_share": KINDS["matmul_share"].highest,
            "memory_share": KINDS["memory_share"].highest,
            "inside_share": KINDS["inside_share"].highest,
            "latency_s": min(max(latency, kind.lowest), kind.highest),
        }
        return Constants(**known)

    def __str__(self) -> str:
        return (
            f"From the calibration: {self.peak_flops_per_s / 1e12:.3g} TFLOP/s in {self.dtype}, memory at "
            f"{self.memory_bandwidth_bytes_per_s / _GB:.3g} GB/s, and {self.backend} from rank to rank at "
            f"{self.link_bandwidth_bytes_per_s / _GB:.3g} GB/s after {self.link_latency_s * 1e6:.3g} us. All else is "
            "typical of other machines."
        )


@checked
def read_calibrated(path: Path) -> Calibrated:
    """The machine of a file that ``calibrate()`` wrote, the last one where it holds several; ValueError for others."""
    try:
        kept = json_of(path)
    except OSError as error:
        raise ValueError(f"machine is {str(path)!r}, which cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    try:
        key, entry = list(kept.items())[-1]
        return _calibrated(str(key), entry)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no file of calibrate()'s: {error!r}.") from None


def _calibrated(key: str, entry: Mapping[str, Any]) -> Calibrated:
    """Of an entry and its key: processor, cores, GPUs by name, versions, with bars between them."""
    parts = [one_line(part, 80) for part in key[:4000].split(" | ")]
    cores = next((number for part in parts if (number := re.fullmatch(r"(\d+) cores", part))), None)
    if cores is None:
        raise ValueError(f"no number of cores stands in {key!r}")
    gpus = [part for part in parts[parts.index(cores.group()) + 1 :] if not re.match(r"(torch|format) ", part)]
    rates = entry["gpu"] if gpus else entry["one_core"]
    by_dtype = rates["matmul_flops_per_s"]
    dtype = "bfloat16" if gpus else max(by_dtype, key=lambda name: float(by_dtype[name]))
    name = f"{len(gpus)}x {gpus[0].rpartition(' ')[0]}" if gpus else f"cores of {parts[0]}"
    return Calibrated(
        name=name,
        devices=len(gpus) or int(cores.group(1)),
        memory_bytes=_memory_bytes(name) if gpus else None,
        peak_flops_per_s=float(by_dtype[dtype]),
        dtype=dtype,
        memory_bandwidth_bytes_per_s=float(rates["memory_bandwidth_bytes_per_s"]),
        link_bandwidth_bytes_per_s=float(entry["link"]["bandwidth_bytes_per_s"]),
        link_latency_s=float(entry["link"]["latency_s"]),
        backend=one_line(entry["backend"], 40),
    )


def _memory_bytes(name: str) -> int | None:
    """Of a GPU whose name holds that of a machine we know, such as "NVIDIA H100 80GB HBM3"."""
    words = name.upper().split()
    return next((spec.memory_bytes for spec in MACHINES.values() if spec.name.split()[-1] in words), None)
