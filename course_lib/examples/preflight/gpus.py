"""What the driver says of the GPUs of this machine: by the program nvidia-smi, and by the kernel's messages."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import torch

__all__ = ["FIELDS", "gpus_of_this_machine", "read_smi", "unreachable_pairs", "xid_errors"]

FIELDS = {
    "index": "index",
    "name": "name",
    "driver": "driver_version",
    "temperature_c": "temperature.gpu",
    "uncorrected": "ecc.errors.uncorrected.volatile.total",
    "reasons": "clocks_event_reasons.active",
    "clock_mhz": "clocks.sm",
    "highest_clock_mhz": "clocks.max.sm",
    "memory_used_mib": "memory.used",
    "link_width": "pcie.link.width.current",
    "highest_link_width": "pcie.link.width.max",
}
"""What is asked, by the name that it has here; nvidia-smi --help-query-gpu lists its own names."""

_OLDER_NAMES = {"reasons": "clocks_throttle_reasons.active"}  # drivers know one of the two, or both
_LIMIT_S = 30


def _said(*command: str) -> str | None:
    """What a program prints; ``None`` where it is not there, not allowed, or does not come to an end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def gpus_of_this_machine() -> list[dict[str, Any]] | None:
    """A dictionary for each GPU, with the names of ``FIELDS``; ``None`` where nvidia-smi cannot be asked.

    It answers nothing at all where it does not know one name: then the older ones are tried.
    """
    for fields in (FIELDS, {**FIELDS, **_OLDER_NAMES}):
        text = _said("nvidia-smi", f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits")
        if text is not None:
            return read_smi(text)
    return None


def read_smi(text: str) -> list[dict[str, Any]]:
    """The lines of nvidia-smi; a value that it does not know ([N/A] and the like) is ``None``."""
    gpus = []
    for line in text.strip().splitlines():
        words = [word.strip() for word in line.split(",")]
        found: dict[str, Any] = {}
        for name, word in zip(FIELDS, words, strict=True):
            if name in ("name", "driver"):
                found[name] = word
            elif re.fullmatch(r"0x[0-9a-fA-F]+|\d+", word):
                found[name] = int(word, 0)
            else:
                found[name] = None
        gpus.append(found)
    return gpus


def unreachable_pairs() -> list[tuple[int, int]] | None:
    """Pairs of GPUs of this machine that cannot read each other's memory; ``None`` with fewer than two GPUs."""
    count = torch.cuda.device_count()
    if count < 2:
        return None
    pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
    return [pair for pair in pairs if not torch.cuda.can_device_access_peer(*pair)]


def xid_errors() -> list[str] | None:
    """The driver's error lines since the machine came up; ``None`` where the kernel's messages may not be read."""
    text = _said("dmesg")
    return None if text is None else [line for line in text.splitlines() if "NVRM: Xid" in line]
