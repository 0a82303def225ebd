"""A trace that was reduced to a table: the two that the course carries, and others with the same columns.

``where`` is ``gpu`` or ``cpu``; ``lane`` the stream's number, or ``annotation`` or ``runtime``. Launches are left out.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from course_lib.base.foreign_text import one_line
from course_lib.base.named_file import text_of
from course_lib.traces.collectives import collective_of, is_communication, operation_name
from course_lib.traces.json_stream import TraceFileError
from course_lib.traces.rank_trace import COMMUNICATION, COMPUTING, COPY, HostSpan, RankTrace, Work

__all__ = ["COLUMNS", "is_table", "rank_of_table"]

COLUMNS = ("where", "lane", "start_us", "duration_us", "name", "collective", "bytes")
_MOST_BYTES = 1 << 28


def is_table(path: Path) -> bool:
    """By its name: a table's ends in .csv."""
    return path.suffix.lower() == ".csv"


def rank_of_table(path: Path, source: str, place: int) -> RankTrace:
    """The rank of a table. Raises ``TraceFileError`` for another file, and OSError for one that cannot be read."""
    try:
        lines = text_of(path, most_bytes=_MOST_BYTES).splitlines()
    except UnicodeDecodeError:
        raise TraceFileError("it is no table: its bytes are no text in UTF-8") from None
    if not lines:
        raise TraceFileError("it is empty")
    if tuple(lines[0].lstrip("\ufeff").split(",")) != COLUMNS:
        raise TraceFileError(f"it is no table of a trace: its first line has to be {','.join(COLUMNS)}")
    trace = RankTrace(source, place, False, is_table=True)
    try:
        for number, row in enumerate(csv.reader(lines[1:], strict=True), 2):
            _take(trace, row, number)
    except csv.Error as error:
        raise TraceFileError(f"it is damaged: {error}") from None
    if not trace.work:
        raise TraceFileError("it holds no work of a GPU: no line begins with gpu")
    for works in trace.work.values():
        works.sort()
    return trace


def _take(trace: RankTrace, row: list[str], number: int) -> None:
    if len(row) != len(COLUMNS):
        raise TraceFileError(f"line {number} has {len(row)} fields, and a line has {len(COLUMNS)}")
    where, lane, start, duration, name, collective, size = row
    try:
        start_us, duration_us = float(start), float(duration)
        size_bytes = int(size) if size else None
    except ValueError:
        raise TraceFileError(f"line {number} has a time or a size that is no number: {one_line(row, 120)}") from None
    if not math.isfinite(start_us) or not 0 <= duration_us < math.inf or (size_bytes or 0) < 0:
        raise TraceFileError(f"line {number}: a duration and a size are 0 or more, and times are finite")
    end_us = start_us + duration_us
    if where == "gpu":
        told = {"Collective name": collective} if collective else {}
        if collective or is_communication(name):
            found = collective_of(name, told) or "other"
            work = Work(start_us, end_us, COMMUNICATION, f"stream {lane}", operation_name(found), size_bytes)
        else:
            kind = COPY if name.startswith(("Memcpy HtoD", "Memcpy DtoH")) else COMPUTING
            work = Work(start_us, end_us, kind, f"stream {lane}")
        trace.work.setdefault(0, []).append(work)
    elif where == "cpu" and lane == "runtime":
        if "ynchronize" in name:
            trace.synchronisations.append(HostSpan(start_us, end_us, name))
    elif where == "cpu" and lane == "annotation":
        if name.startswith("ProfilerStep"):
            trace.steps.append(HostSpan(start_us, end_us, name))
        elif not name.startswith(("nccl:", "gloo:")):
            trace.annotations.append(HostSpan(start_us, end_us, name))
    else:
        raise TraceFileError(f"line {number} begins with {one_line(f'{where},{lane}', 60)}; it is gpu or cpu")
