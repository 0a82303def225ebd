"""Where measured numbers come from: command, date, machine, versions; it is kept beside them."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

from course_lib.devices import machine

__all__ = ["origin"]


def origin(command: str) -> dict[str, Any]:
    """Where numbers come from, as it is kept with them: command, date, machine, versions."""
    here = machine()
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cores": here.cores,
            "cpu": here.cpu_name,
            "memory_bytes": here.memory_bytes,
            "gpus": [device.name for device in here.devices],
        },
        "versions": {"python": platform.python_version(), "torch": here.torch_version},
    }
