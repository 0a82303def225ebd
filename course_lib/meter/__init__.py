"""What a run did cost: memory ledger, timeline, stopwatch, calibration. Names load when they are first
used.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "LABELS": "memory",
    "Balance": "memory",
    "Entry": "memory",
    "History": "memory",
    "MemoryLedger": "memory",
    "ledger": "memory",
    "TimedReads": "reads",
    "KINDS": "timeline",
    "Span": "timeline",
    "Timeline": "timeline",
    "Comparison": "stopwatch",
    "Measurement": "stopwatch",
    "compare": "stopwatch",
    "measure": "stopwatch",
    "bytes_text": "units",
    "time_text": "units",
    "Calibration": "calibration",
    "calibrate": "calibration",
    "Call": "call",
    "Communication": "communication",
    "metered": "communication",
    "Breach": "nccl_rules",
    "nccl_breaches": "nccl_rules",
    "expect": "expectations",
    "DeepTrace": "deep_view",
    "profiled": "deep_view",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
