"""The deep view: ``torch.profiler`` on every rank, all ranks on one clock, beside the course's own meters.

::

    run = profiled(cluster, train)       # cluster.run(train) under the profiler and the communication meter
    run.timeline.save("trace.json")      # open it at ui.perfetto.dev

Each rank's profiler has a clock of its own. A marker block around a reading of ``base/clock.py``, the clock of
``Timeline`` and of the meter, tells by how much to shift it; the shift is good to about 0.01 ms.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.base.clock import now_s
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.run import Run
from course_lib.meter.clocks.spans import Span, name_event, nested_lanes, trace_events
from course_lib.meter.clocks.timeline import Timeline
from course_lib.meter.communication.communication import metered

__all__ = ["DeepTrace", "profiled"]

_MARKER = "clock of course_lib"
_NUM_MARKERS = 7
_FIRST_THREAD = 1000  # of the profiler's threads in the trace; those before are for spans
_FLOW_PHASES = ("s", "t", "f")
_IDS_A_RANK = 1 << 40

Event = dict[str, Any]


@dataclass(frozen=True, repr=False)
class DeepTrace:
    """What profilers and meters saw of one run, all on the clock of ``base/clock.py``.

    ``events[rank]`` are the profiler's, in Chrome's trace format with ``ts`` in us; ``spans`` the meter's calls
    and the spans of the timelines that the ranks returned.
    """

    events: dict[int, tuple[Event, ...]]
    spans: tuple[Span, ...]

    def chrome_trace(self) -> dict[str, Any]:
        """One trace: a process for each rank, a thread for each kind of span, then the profiler's threads."""
        timed = [event["ts"] for events in self.events.values() for event in events if event["ph"] != "M"]
        zero_us = float(math.floor(min([*timed, *(span.start_s * 1e6 for span in self.spans)], default=0.0)))
        names = [name_event("process_name", rank, 0, f"rank {rank}") for rank in sorted(self.events)]
        found = trace_events(self.spans, zero_s=zero_us / 1e6)
        for rank, events in sorted(self.events.items()):
            shifted = (event if event["ph"] == "M" else {**event, "ts": event["ts"] - zero_us} for event in events)
            found += _in_lanes(shifted, rank)
        names += [event for event in found if event["ph"] == "M"]
        happened = sorted((event for event in found if event["ph"] != "M"), key=lambda event: event["ts"])
        for event in happened:
            event["ts"] = round(event["ts"], 3)  # whole ns
        return {"traceEvents": names + happened, "displayTimeUnit": "ms"}

    def save(self, path: str | Path) -> Path:
        """Write the trace as JSON; open it at ui.perfetto.dev or in chrome://tracing."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome_trace()), encoding="utf-8")
        return path

    def __repr__(self) -> str:
        num_events = sum(map(len, self.events.values()))
        return (
            f"DeepTrace of {len(self.events)} ranks: {num_events} events of the profiler, {len(self.spans)} spans; "
            "save(path) writes a trace for ui.perfetto.dev"
        )


def profiled(cluster: Cluster, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Run:
    """``cluster.run(function, ...)`` under the profiler and the meter: ``run.timeline`` is a ``DeepTrace``.

    The spans of a ``Timeline`` that the function returns, alone or in a tuple, list or dict, are in the trace
    too. The profiler makes the run slower, and must not be in use in the function itself.
    """
    run = metered(cluster, functools.partial(_on_rank, function), *args, **kwargs)
    results = {rank: result for rank, (result, _) in run.results.items()}
    events = {rank: tuple(mine) for rank, (_, mine) in run.results.items()}
    spans = [span for result in results.values() for found in _timelines(result) for span in found.spans]
    joined = Timeline.join([run.communication.timeline(), spans])
    return dataclasses.replace(run, results=results, timeline=DeepTrace(events, joined.spans))


def _on_rank(function: Callable[..., Any], me: Rank, *args: Any, **kwargs: Any) -> tuple[Any, list[Event]]:
    """Call the function under the profiler; what it returned, and the profiler's events on the common clock."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    on_gpu = me.device.type == "cuda"
    profiler = profile(activities=[ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_gpu])
    readings_s = []
    with _quiet():
        profiler.start()
    try:
        for _ in range(_NUM_MARKERS):
            with record_function(_MARKER):
                readings_s.append(now_s())
        result = function(me, *args, **kwargs)
        if on_gpu:
            torch.cuda.synchronize(me.device)
    finally:
        with _quiet():
            profiler.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return result, on_common_clock(found, readings_s, rank=me.rank, pid=os.getpid())


def on_common_clock(events: Iterable[Event], readings_s: Sequence[float], *, rank: int, pid: int) -> list[Event]:
    """The profiler's events of one rank with the rank as their process and ``ts`` on the clock of the readings.

    ``readings_s`` were taken inside the first marker blocks. The shortest block pins the clock down best.
    Threads keep the (process, thread) that the profiler gave them as ``tid``; a GPU's streams are threads here.
    """
    events = list(events)
    markers = sorted((e for e in events if e["ph"] == "X" and e["name"] == _MARKER), key=lambda e: e["ts"])
    assert len(markers) == len(readings_s), "every marker block is in the trace"
    marker, reading_s = min(zip(markers, readings_s, strict=True), key=lambda pair: pair[0]["dur"])
    middle_us = marker["ts"] + marker["dur"] / 2
    shift_us = round(reading_s * 1e6 - middle_us, 3)  # whole ns, as the profiler counts
    kept: list[Event] = []
    for event in events:
        is_name = event["ph"] == "M" and event["name"] == "thread_name"
        is_own = event["ph"] == "M" or event["name"] == _MARKER or not isinstance(event["pid"], int)
        if is_own and not is_name:
            continue  # names of processes; our markers; what the profiler says of itself
        moved = {**event, "pid": rank, "tid": (event["pid"], event["tid"])}
        if is_name:
            moved["args"] = {"name": _thread_name(event, pid)}
        else:
            moved["ts"] = event["ts"] + shift_us
        if event["ph"] in _FLOW_PHASES:
            moved["id"] = event["id"] + rank * _IDS_A_RANK  # an arrow stays within its rank
        kept.append(moved)
    return kept


def _thread_name(event: Event, pid: int) -> str:
    name = str(event["args"]["name"]).strip()
    if event["pid"] != pid:
        return f"GPU {event['pid']} {name}"
    return "main thread" if event["tid"] == pid else name


def _in_lanes(events: Iterable[Event], rank: int) -> list[Event]:
    """Number the threads of a rank; one in which blocks cross gets further ones, so that each is drawn."""
    names: dict[Any, str] = {}
    by_thread: dict[Any, list[Event]] = {}
    for event in events:
        if event["ph"] == "M":
            names.setdefault(event["tid"], event["args"]["name"])
        else:
            by_thread.setdefault(event["tid"], []).append(event)
    on_lanes: list[Event] = []
    number = _FIRST_THREAD
    for thread, mine in sorted(by_thread.items(), key=lambda item: str(item[0])):
        mine.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
        blocks = [event for event in mine if event["ph"] == "X"]
        lanes = nested_lanes([_ends_ns(event) for event in blocks])
        for lane in range(max(lanes, default=0) + 1):
            suffix = f" ({lane + 1})" if lane else ""
            on_lanes.append(name_event("thread_name", rank, number + lane, names.get(thread, "thread") + suffix))
        on_lanes += [{**event, "tid": number + lane} for event, lane in zip(blocks, lanes, strict=True)]
        on_lanes += [{**event, "tid": number} for event in mine if event["ph"] != "X"]
        number += max(lanes, default=0) + 1
    return on_lanes


def _ends_ns(event: Event) -> tuple[int, int]:
    """In whole ns: by sums of us in floating point a block could stick out of the one around it."""
    start_ns = round(event["ts"] * 1e3)
    return start_ns, start_ns + round(event["dur"] * 1e3)


def _timelines(result: Any) -> list[Timeline]:
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    return [part for part in parts if isinstance(part, Timeline)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the profiler itself prints at its start and stop out of the rank's text."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
