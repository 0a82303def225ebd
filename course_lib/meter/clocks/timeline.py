"""Where the time of a rank goes: named spans on one clock, a table of them, and a trace that Perfetto opens.

    timeline = Timeline()
    for x, y in timeline.iterate(loader):
        with timeline.span("forward"):
            loss = loss_of(model(x), y)
    print(timeline)

The clock is ``base/clock.py``: the system's monotonic clock, which all processes of one host share, set by that of the
notebook on other hosts, so that the spans of several ranks can be laid side by side. On a GPU a call returns before
its work is done; there, spans of computing and communicating are read from device events, which need no waiting
while the program runs.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from course_lib.base.clock import now_s
from course_lib.meter.clocks.gpu_clock import GpuClock
from course_lib.meter.clocks.spans import KINDS, Span, check_kind, name_event, trace_events
from course_lib.meter.units import time_text

__all__ = ["KINDS", "Span", "Timeline"]

_HOST_KINDS = ("wait", "idle", "data")  # what the host does, also where the rank has a GPU

T = TypeVar("T")


class Timeline:
    """Spans as they happen on one rank, or those of many ranks put together by ``join``.

    With a CUDA ``device``, spans of kind compute, send, receive and collective are timed by device events.
    """

    def __init__(self, rank: int = 0, *, device: Any = None, clock: Callable[[], float] = now_s) -> None:
        self.rank = rank
        self._clock = clock
        self._spans: list[Span] = []
        self._pending: list[tuple[int, str, str, Any, Any]] = []
        self._gpu = GpuClock(device, clock) if str(device or "cpu").startswith("cuda") else None

    @classmethod
    def join(cls, timelines: Iterable[Timeline | Iterable[Span]]) -> Timeline:
        """One timeline of the spans of several ranks."""
        joined = cls()
        for timeline in timelines:
            for span in timeline.spans if isinstance(timeline, Timeline) else timeline:
                joined.add(span)
        return joined

    @contextmanager
    def span(self, name: str, *, kind: str = "compute", rank: int | None = None) -> Iterator[None]:
        """Record the block as a span; it is recorded too when the block raises.

        Where ``torch.profiler`` is running, the block has this name in its trace as well.
        """
        check_kind(kind)
        on_gpu = self._gpu is not None and kind not in _HOST_KINDS
        stamp: Callable[[], Any] = self._gpu.stamp if self._gpu is not None and on_gpu else self._clock
        with _profiler_note(name):
            start = stamp()
            try:
                yield
            finally:
                end = stamp()
                owner = self.rank if rank is None else rank
                if on_gpu:
                    self._pending.append((owner, name, kind, start, end))
                else:
                    self.add(Span(owner, name, kind, start, end))

    def iterate(self, items: Iterable[T], name: str = "data", *, kind: str = "data") -> Iterator[T]:
        """Go through ``items`` (a loader) and record each wait for the next one as a span."""
        iterator = iter(items)
        while True:
            start = self._clock()
            try:
                item = next(iterator)
            except StopIteration:
                return
            self.add(Span(self.rank, name, kind, start, self._clock()))
            yield item

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the spans, without the device that timed them."""
        return {**self.__dict__, "_spans": list(self.spans), "_pending": [], "_gpu": None}

    def add(self, span: Span) -> None:
        """Add a span that was timed elsewhere."""
        self._spans.append(span)

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans by their start. On a GPU this waits for the work that the last spans are about."""
        if self._gpu is not None:
            for rank, name, kind, start, end in self._pending:
                self.add(Span(rank, name, kind, self._gpu.read(start), self._gpu.read(end)))
            self._pending.clear()
        return tuple(sorted(self._spans, key=lambda span: (span.start_s, -span.end_s)))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have spans here."""
        return tuple(sorted({span.rank for span in self.spans}))

    @property
    def wall_s(self) -> float:
        """From the first start to the last end, over all ranks."""
        spans = self.spans
        return max(span.end_s for span in spans) - spans[0].start_s if spans else 0.0

    def time_s(self, name: str | None = None, *, kind: str | None = None, rank: int | None = None) -> float:
        """Seconds in spans of this name, kind and rank (``None``: any), summed over the ranks.

        Where spans of one rank overlap, an instant belongs to the one that began last: nothing is counted
        twice.
        """
        if kind is not None:
            check_kind(kind)
        return sum(
            seconds
            for span, seconds in self._own_times()
            if name in (None, span.name) and kind in (None, span.kind) and rank in (None, span.rank)
        )

    def summary(self) -> str:
        """A table: for each rank, name and kind the count, time, median and share of the wall time."""
        wall = self.wall_s
        rows: dict[tuple[int, str, str], list[float]] = {}
        for span, seconds in self._own_times():
            rows.setdefault((span.rank, span.name, span.kind), []).append(seconds)
        lines = [f"{'rank':>4}  {'span':<20}{'kind':<12}{'count':>6}{'total':>10}{'median':>10}{'share':>8}"]
        for rank in self.ranks:
            mine = {key: times for key, times in rows.items() if key[0] == rank}
            for (_, name, kind), times in mine.items():
                lines.append(_summary_row(rank, name, kind, times, wall))
            left = wall - sum(sum(times) for times in mine.values())
            if wall and left > 0.0005 * wall:
                lines.append(_summary_row(rank, "(in no span)", "", [left], wall))
        lines.append(f"wall time {time_text(wall)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def chrome_trace(self) -> dict[str, Any]:
        """The spans in Chrome's trace format: a process for each rank, a thread for each kind, in us."""
        spans = self.spans
        names = [name_event("process_name", rank, 0, f"rank {rank}") for rank in self.ranks]
        events = trace_events(spans, zero_s=spans[0].start_s if spans else 0.0)
        return {"traceEvents": names + events, "displayTimeUnit": "ms"}

    def save_chrome_trace(self, path: str | Path) -> Path:
        """Write the trace as JSON; open it at ui.perfetto.dev or in chrome://tracing."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome_trace()), encoding="utf-8")
        return path

    def _own_times(self) -> list[tuple[Span, float]]:
        spans = self.spans
        pairs: list[tuple[Span, float]] = []
        for rank in sorted({span.rank for span in spans}):
            pairs += _innermost_times([span for span in spans if span.rank == rank])
        return pairs


def _innermost_times(spans: list[Span]) -> list[tuple[Span, float]]:
    """Give each instant to the span that began last among those open. One rank's, by their start."""
    edges = sorted({edge for span in spans for edge in (span.start_s, span.end_s)})
    own = [0.0] * len(spans)
    open_now: list[int] = []
    next_index = 0
    for left, right in pairwise(edges):
        while next_index < len(spans) and spans[next_index].start_s <= left:
            open_now.append(next_index)
            next_index += 1
        open_now = [index for index in open_now if spans[index].end_s > left]
        if open_now:
            own[open_now[-1]] += right - left
    return list(zip(spans, own, strict=True))


def _summary_row(rank: int, name: str, kind: str, times: list[float], wall_s: float) -> str:
    total, middle = time_text(sum(times)), time_text(statistics.median(times))
    share = f"{sum(times) / wall_s:.1%}" if wall_s else "-"
    return f"{rank:>4}  {name:<20}{kind:<12}{len(times):>6}{total:>10}{middle:>10}{share:>8}"


def _profiler_note(name: str) -> AbstractContextManager[Any]:
    """The block under this name in the trace of ``torch.profiler`` too, where one is running."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd._profiler_enabled():
        return nullcontext()
    return torch.profiler.record_function(name)
