"""A trace that was reduced to a table: the two that the course carries, and others with the same columns.

``where`` is ``gpu`` or ``cpu``; ``lane`` the stream's number, or ``annotation`` or ``runtime``. Launches are left out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from course_lib.base.foreign_text import one_line
from course_lib.base.named_file import text_of
from course_lib.traces.collectives import collective_of, is_communication, operation_name
from course_lib.traces.json_stream import TraceFileError
from course_lib.traces.rank_trace import COMMUNICATION, COMPUTING, COPY, HostSpan, RankTrace, Work

__all__ = ["COLUMNS", "TableRow", "is_table", "rank_of_table", "rows_of_table"]

COLUMNS = ("where", "lane", "start_us", "duration_us", "name", "collective", "bytes")
_MOST_BYTES = 1 << 28


class TableRow(NamedTuple):
    """A line of a table. ``collective`` is "" but for NCCL's kernels; ``size_bytes`` is None where it is not told."""

    where: str  # "gpu" or "cpu"
    lane: str  # a stream's number; "annotation" or "runtime"
    start_us: float
    duration_us: float
    name: str
    collective: str  # as the trace writes it: "allreduce"
    size_bytes: int | None

    @property
    def end_us(self) -> float:
        """When it ended."""
        return self.start_us + self.duration_us


def is_table(path: Path) -> bool:
    """By its name: a table's ends in .csv."""
    return path.suffix.lower() == ".csv"


def rows_of_table(path: Path) -> Iterator[TableRow]:
    """The lines of a table, in its order. Raises ``TraceFileError`` for another file, OSError for one not readable."""
    try:
        lines = text_of(path, most_bytes=_MOST_BYTES).splitlines()
    except UnicodeDecodeError:
        raise TraceFileError("it is no table: its bytes are no text in UTF-8") from None
    if not lines:
        raise TraceFileError("it is empty")
    if tuple(lines[0].lstrip("\ufeff").split(",")) != COLUMNS:
        raise TraceFileError(f"it is no table of a trace: its first line has to be {','.join(COLUMNS)}")
    try:
        for number, fields in enumerate(csv.reader(lines[1:], strict=True), 2):
            yield _row(fields, number)
    except csv.Error as error:
        raise TraceFileError(f"it is damaged: {error}") from None


def rank_of_table(path: Path, source: str, place: int) -> RankTrace:
    """The rank of a table. Raises ``TraceFileError`` for another file, and OSError for one that cannot be read."""
    trace = RankTrace(source, place, False, is_table=True)
    for row in rows_of_table(path):
        _take(trace, row)
    if not trace.work:
        raise TraceFileError("it holds no work of a GPU: no line begins with gpu")
    for works in trace.work.values():
        works.sort()
    return trace


def _row(fields: list[str], number: int) -> TableRow:
    if len(fields) != len(COLUMNS):
        raise TraceFileError(f"line {number} has {len(fields)} fields, and a line has {len(COLUMNS)}")
    where, lane, start, duration, name, collective, size = fields
    try:
        row = TableRow(where, lane, float(start), float(duration), name, collective, int(size) if size else None)
    except ValueError:
        raise TraceFileError(f"line {number} has a time or a size that is no number: {one_line(fields, 120)}") from None
    if not math.isfinite(row.start_us) or not 0 <= row.duration_us < math.inf or (row.size_bytes or 0) < 0:
        raise TraceFileError(f"line {number}: a duration and a size are 0 or more, and times are finite")
    if where != "gpu" and (where, lane) not in (("cpu", "runtime"), ("cpu", "annotation")):
        raise TraceFileError(f"line {number} begins with {one_line(f'{where},{lane}', 60)}; it is gpu or cpu")
    return row


def _take(trace: RankTrace, row: TableRow) -> None:
    name, start_us, end_us = row.name, row.start_us, row.end_us
    if row.where == "gpu":
        lane = f"stream {row.lane}"
        told = {"Collective name": row.collective} if row.collective else {}
        if row.collective or is_communication(name):
            found = collective_of(name, told) or "other"
            work = Work(start_us, end_us, COMMUNICATION, lane, operation_name(found), row.size_bytes)
        else:
            kind = COPY if name.startswith(("Memcpy HtoD", "Memcpy DtoH")) else COMPUTING
            work = Work(start_us, end_us, kind, lane)
        trace.work.setdefault(0, []).append(work)
    elif row.lane == "runtime":
        if "ynchronize" in name:
            trace.synchronisations.append(HostSpan(start_us, end_us, name))
    elif name.startswith("ProfilerStep"):
        trace.steps.append(HostSpan(start_us, end_us, name))
    elif not name.startswith(("nccl:", "gloo:")):
        trace.annotations.append(HostSpan(start_us, end_us, name))
