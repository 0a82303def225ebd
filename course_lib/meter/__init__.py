"""What a run did cost: memory, time, communication; and what this machine can do.

In the order to read:

- ``origin.py``: where measured numbers come from
- ``units.py``: bytes and seconds as a person reads them
- ``calibration/``: What this machine can do: measured curves, fitted links
- ``clocks/``: Time: spans on a timeline, GPU events, a stopwatch for comparisons
- ``communication/``: Communication, call by call: recorded, counted in bytes, held against NCCL's rules
- ``memory/``: Memory by what it is for: the ledger, its storages, a balance
- ``profiling/``: PyTorch's profiler and timed reads, as tables and pictures
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "LABELS": "memory.memory",
    "Balance": "memory.memory",
    "Entry": "memory.memory",
    "History": "memory.memory",
    "MemoryLedger": "memory.memory",
    "ledger": "memory.memory",
    "TimedReads": "profiling.reads",
    "KINDS": "clocks.timeline",
    "Span": "clocks.timeline",
    "Timeline": "clocks.timeline",
    "Comparison": "clocks.stopwatch",
    "Measurement": "clocks.stopwatch",
    "compare": "clocks.stopwatch",
    "measure": "clocks.stopwatch",
    "bytes_text": "units",
    "time_text": "units",
    "Calibration": "calibration.calibration",
    "calibrate": "calibration.calibration",
    "link_between_nodes": "calibration.between_nodes",
    "Call": "communication.call",
    "Communication": "communication.communication",
    "metered": "communication.communication",
    "StepSplit": "communication.step_split",
    "mean_split": "communication.step_split",
    "split_step": "communication.step_split",
    "Breach": "communication.nccl_rules",
    "nccl_breaches": "communication.nccl_rules",
    "expect": "communication.expectations",
    "DeepTrace": "profiling.deep_view",
    "profiled": "profiling.deep_view",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
