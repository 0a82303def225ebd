"""What a run did cost: memory ledger, timeline, stopwatch, calibration. Names load when they are first
used.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME_OF = {
    "LABELS": "memory",
    "Balance": "memory",
    "Entry": "memory",
    "History": "memory",
    "MemoryLedger": "memory",
    "ledger": "memory",
    "KINDS": "timeline",
    "Span": "timeline",
    "Timeline": "timeline",
    "Comparison": "stopwatch",
    "Measurement": "stopwatch",
    "compare": "stopwatch",
    "measure": "stopwatch",
    "bytes_text": "units",
    "time_text": "units",
    "layer_shapes": "shapes",
    "Calibration": "calibration",
    "calibrate": "calibration",
    "Call": "call",
    "Communication": "communication",
    "metered": "communication",
    "expect": "expectations",
    "DeepTrace": "deep_view",
    "profiled": "deep_view",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"course_lib.meter has no name {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
