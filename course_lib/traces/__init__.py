"""``course trace``: what traces of ``torch.profiler`` say of a job, on GPUs or on processors.

::

    report = trace_report("rank0.json", "rank1.json")     # or "ddp_resnet_2xa100", a real job's
    print(report)                                         # computing, communication, what hides, idle and why
    report.picture()

In the order to read:

- ``rank_trace.py``: what one rank's trace says, whichever file it came from
- ``intervals.py``: sets of moments: their union, what two have in common
- ``breakdown.py``: where a device's time went: computing, communication that hides or is exposed, copies, idle
- ``idle.py``: why a device was idle, and what the host did meanwhile
- ``stragglers.py``: who keeps the others waiting
- ``collectives.py``: which collective a kernel carries out, and its bytes
- ``profiler_events.py``: from the profiler's events to work on devices
- ``json_stream.py``: a trace's JSON, event by event, within limits
- ``table.py``: a trace that was reduced to a table
- ``read.py``: traces by the names of their files
- ``device_report.py``: one device: where its time went, and why it was idle
- ``report.py``: all of it as text and as JSON's values
- ``picture.py``: and as a picture
- ``options.py``: the options of ``course trace``
- ``command.py``: what it does with them
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course_lib.base.foreign_text import one_line
from course_lib.base.lazy import loads_when_used

__all__ = [
    "CARRIED",
    "TraceFileError",
    "TraceReport",
    "common",
    "length",
    "main",
    "minus",
    "read_traces",
    "table_rows",
    "trace_report",
    "union",
]

_HOME_OF = {
    "CARRIED": "read",
    "TraceFileError": "json_stream",
    "TraceReport": "report",
    "common": "intervals",
    "length": "intervals",
    "minus": "intervals",
    "read_traces": "read",
    "table_rows": "read",
    "trace_report": "report",
    "union": "intervals",
}
__getattr__, _names = loads_when_used(__name__, _HOME_OF)


def __dir__() -> list[str]:
    return sorted([*_names(), "main"])


def main(arguments: Sequence[str]) -> int:
    """Print what the traces say: 0, or 2 for a file or an option that cannot be understood."""
    try:
        from course_lib.traces.options import parse

        options = parse(arguments)
        from course_lib.traces.command import show  # with numpy, which --help does without

        return show(options)
    except ValueError as error:
        print(f"course trace: {one_line(error, 2000)}", file=sys.stderr)
        return 2
