"""Where one device's time went: computing, communication that hides and that does not, copies, idle.

Every moment of the window is counted once, in this order: computing (alone, or with communication beneath it, which is
then hidden), communication alone (exposed), copies between host and device alone, idle. The window is that of the
recorded steps and of the work launched in them; without steps, from the first work to the end of the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from course_lib.traces.intervals import Intervals, common, length, minus, union
from course_lib.traces.rank_trace import COMMUNICATION, COMPUTING, COPY, RankTrace, Work

__all__ = ["CollectiveRow", "DeviceTime", "StreamRow", "breakdown", "busy", "window_us"]


@dataclass(frozen=True)
class CollectiveRow:
    """Calls of one collective on one stream, in one process group. ``time_us`` is the union of its calls."""

    collective: str
    stream: str
    group: str
    num_calls: int
    size_bytes: int | None  # inputs of all calls; None where the trace does not say it of every one
    time_us: float
    hidden_us: float
    largest_bytes: int | None

    @property
    def exposed_us(self) -> float:
        """With nothing computed meanwhile on this device."""
        return self.time_us - self.hidden_us


@dataclass(frozen=True)
class StreamRow:
    """One stream, or one kind of the host's threads: how much it worked, and at what."""

    stream: str
    computing_us: float
    communication_us: float
    copy_us: float


@dataclass(frozen=True)
class DeviceTime:
    """One device of one rank. ``computing_us`` + ``exposed_us`` + ``copy_us`` + ``idle_us`` is ``window_us``."""

    rank: int
    device: int
    window_us: float
    num_steps: int
    step_us: float | None  # median
    computing_us: float
    communication_us: float
    hidden_us: float
    copy_us: float  # alone
    idle_us: float
    collectives: tuple[CollectiveRow, ...]
    streams: tuple[StreamRow, ...]

    @property
    def exposed_us(self) -> float:
        """Communication with nothing computed meanwhile."""
        return self.communication_us - self.hidden_us


def _of_kind(works: Iterable[Work], kind: str) -> Intervals:
    return union((work.start_us, work.end_us) for work in works if work.kind == kind)


def busy(works: Iterable[Work]) -> Intervals:
    """When the device does anything."""
    return union((work.start_us, work.end_us) for work in works)


def window_us(trace: RankTrace, device: int) -> tuple[float, float]:
    """Start and end of what is looked at."""
    works = trace.work[device]
    ends = max(work.end_us for work in works)
    if not trace.steps:
        return works[0].start_us, ends
    return trace.steps[0].start_us, max(ends, max(step.end_us for step in trace.steps))


def breakdown(trace: RankTrace, device: int) -> DeviceTime:
    """Count every moment of one device once; see the module's text."""
    start, end = window_us(trace, device)
    works = [work for work in trace.work[device] if work.end_us > start]
    inside = union([(start, end)])
    kinds = {kind: common(_of_kind(works, kind), inside) for kind in (COMPUTING, COMMUNICATION, COPY)}
    computing, communication = kinds[COMPUTING], kinds[COMMUNICATION]
    worked = union([*computing.tolist(), *communication.tolist()])
    copies = minus(kinds[COPY], worked)
    steps = [step.end_us - step.start_us for step in trace.steps]
    return DeviceTime(
        rank=trace.rank,
        device=device,
        window_us=end - start,
        num_steps=len(steps),
        step_us=median(steps) if steps else None,
        computing_us=length(computing),
        communication_us=length(communication),
        hidden_us=length(common(communication, computing)),
        copy_us=length(copies),
        idle_us=end - start - length(worked) - length(copies),
        collectives=tuple(_rows(works, computing)),
        streams=tuple(_streams(works)),
    )


def _rows(works: Iterable[Work], computing: Intervals) -> list[CollectiveRow]:
    calls: dict[tuple[str, str, str], list[Work]] = {}
    for work in works:
        if work.kind == COMMUNICATION:
            calls.setdefault((work.collective, work.lane, work.group), []).append(work)
    rows = []
    for (collective, stream, group), mine in calls.items():
        sizes = [work.size_bytes for work in mine if work.size_bytes is not None]
        is_told = len(sizes) == len(mine)
        times = busy(mine)
        hidden_us = length(common(times, computing))
        size, largest = (sum(sizes), max(sizes)) if is_told else (None, None)
        rows.append(CollectiveRow(collective, stream, group, len(mine), size, length(times), hidden_us, largest))
    return sorted(rows, key=lambda row: -row.time_us)


def _streams(works: Iterable[Work]) -> list[StreamRow]:
    lanes: dict[str, list[Work]] = {}
    for work in works:
        lanes.setdefault(work.lane, []).append(work)
    rows = [
        StreamRow(lane, *(length(_of_kind(mine, kind)) for kind in (COMPUTING, COMMUNICATION, COPY)))
        for lane, mine in lanes.items()
    ]
    return sorted(rows, key=lambda row: -(row.computing_us + row.communication_us + row.copy_us))
