"""The timeline: spans, an instant counted once, summary, trace, one clock for all processes of a host."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.meter import KINDS, Call, Communication, Span, Timeline
from course_lib.meter.clocks import timeline as timeline_module


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_spans_bear_rank_name_kind_and_times(clock: Clock) -> None:
    timeline = Timeline(rank=3, clock=clock)
    with timeline.span("forward"):
        clock.now_s += 2
    clock.now_s += 1
    with timeline.span("gradients", kind="collective", rank=1):
        clock.now_s += 0.5
    assert timeline.spans == (
        Span(3, "forward", "compute", 100.0, 102.0),
        Span(1, "gradients", "collective", 103.0, 103.5),
    )
    assert timeline.ranks == (1, 3)
    assert timeline.wall_s == 3.5


def test_a_span_is_recorded_when_the_block_raises(clock: Clock) -> None:
    timeline = Timeline(clock=clock)

    def fail() -> None:
        with timeline.span("forward"):
            clock.now_s += 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert timeline.time_s("forward") == 2


def test_iterate_times_each_wait_for_the_next_item_and_not_what_is_done_with_it(clock: Clock) -> None:
    def slow() -> Iterator[int]:
        for number in range(3):
            clock.now_s += 1
            yield number
        clock.now_s += 50  # after the last item there is nothing to wait for

    timeline = Timeline(clock=clock)
    seen = []
    for number in timeline.iterate(slow()):
        seen.append(number)
        clock.now_s += 10
    assert seen == [0, 1, 2]
    assert timeline.time_s("data", kind="data") == 3
    assert len(timeline.spans) == 3


def test_an_instant_belongs_to_the_span_that_began_last() -> None:
    spans = [
        Span(0, "step", "compute", 0, 10),
        Span(0, "exchange", "collective", 2, 5),
        Span(0, "wait", "wait", 4, 6),
        Span(1, "step", "compute", 0, 4),
    ]
    timeline = Timeline.join([spans])
    assert timeline.time_s("exchange") == 2
    assert timeline.time_s("wait") == 2
    assert timeline.time_s("step", rank=0) == 6
    assert timeline.time_s(rank=0) == timeline.wall_s == 10
    assert timeline.time_s(kind="compute") == 10
    assert timeline.time_s("nothing of that name") == 0


def test_equal_spans_and_empty_spans_are_shared_out_without_loss() -> None:
    timeline = Timeline.join([[Span(0, "a", "compute", 0, 2), Span(0, "b", "compute", 0, 2)]])
    timeline.add(Span(0, "c", "compute", 1, 1))
    assert timeline.time_s("c") == 0
    assert timeline.time_s() == 2


def test_join_puts_ranks_together(clock: Clock) -> None:
    timelines = []
    for rank in range(2):
        timeline = Timeline(rank, clock=clock)
        with timeline.span("forward"):
            clock.now_s += 1
        timelines.append(timeline)
    joined = Timeline.join([timelines[1], timelines[0].spans])
    assert [span.rank for span in joined.spans] == [0, 1]
    assert joined.wall_s == 2


def test_summary_counts_and_shares(clock: Clock) -> None:
    timeline = Timeline(clock=clock)
    for _ in range(2):
        with timeline.span("forward"):
            clock.now_s += 0.003
        clock.now_s += 0.001
    with timeline.span("step"):
        clock.now_s += 0.002
    lines = timeline.summary().splitlines()
    assert lines[1].split() == ["0", "forward", "compute", "2", "6", "ms", "3", "ms", "60.0%"]
    assert lines[2].split() == ["0", "step", "compute", "1", "2", "ms", "2", "ms", "20.0%"]
    assert lines[3].split() == ["0", "(in", "no", "span)", "1", "2", "ms", "2", "ms", "20.0%"]
    assert lines[4] == "wall time 10 ms"
    assert repr(timeline) == timeline.summary()
    assert Timeline().summary().endswith("wall time 0 ns")


def test_chrome_trace_has_a_process_a_rank_and_microseconds(tmp_path: Path) -> None:
    spans = [Span(0, "forward", "compute", 5.0, 5.002), Span(1, "grads", "collective", 5.001, 5.0015)]
    path = Timeline.join([spans]).save_chrome_trace(tmp_path / "trace.json")
    trace = json.loads(path.read_text(encoding="utf-8"))
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(e["pid"], e["name"], e["cat"]) for e in complete] == [
        (0, "forward", "compute"),
        (1, "grads", "collective"),
    ]
    assert [round(e["ts"], 3) for e in complete] == [0, 1000]
    assert [round(e["dur"], 3) for e in complete] == [2000, 500]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names["process_name", 1, 0] == "rank 1"
    assert names["thread_name", 1, KINDS.index("collective")] == "collective"
    assert all(("thread_name", e["pid"], e["tid"]) in names for e in complete)


def test_spans_of_a_kind_that_cross_get_threads_of_their_own() -> None:
    times = [(0, 4), (1, 3), (2, 6), (3, 4), (4, 5), (7, 8)]
    spans = [Span(0, str(number), "collective", *pair) for number, pair in enumerate(times)]
    events = Timeline.join([spans]).chrome_trace()["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    threads = {e["name"]: names[e["tid"]] for e in events if e["ph"] == "X"}
    assert threads == {
        "0": "collective", "1": "collective", "3": "collective", "4": "collective", "5": "collective",
        "2": "collective (2)",
    }  # fmt: skip


def test_the_calls_of_the_meter_are_spans_where_their_end_is_known() -> None:
    common = {"group": (0, 1), "size_bytes": 8, "num_messages": 1, "hidden_s": None, "line": None}
    calls = [
        Call(rank, number, operation, sent_bytes={}, start_s=5.0, end_s=end_s, **common)
        for rank, number, operation, end_s in [
            (0, 1, "send", 6.0), (1, 1, "recv", 7.0), (1, 2, "all_reduce", 8.0), (0, 2, "barrier", None),
        ]
    ]  # fmt: skip
    assert set(Communication(2, tuple(calls)).timeline().spans) == {
        Span(0, "send", "send", 5.0, 6.0),
        Span(1, "recv", "recv", 5.0, 7.0),
        Span(1, "all_reduce", "collective", 5.0, 8.0),
    }
    assert calls[2].span("tp") == Span(1, "tp", "collective", 5.0, 8.0)
    assert calls[3].span("tp") is None
    assert [call.is_message for call in calls] == [True, True, False, False]


def test_the_clock_is_shared_by_the_processes_of_a_host() -> None:
    before = time.perf_counter()
    code = "from course_lib.meter import Timeline\nt = Timeline()\nwith t.span('x'): pass\nprint(t.spans[0].start_s)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert before < float(child.stdout) < time.perf_counter()


def test_it_needs_no_torch() -> None:
    code = "import sys\nfrom course_lib.meter import Timeline, measure\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)


def test_device_spans_are_read_late_from_events(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """With a stand-in for the GPU: the host is done at once, the device later."""

    class Gpu:
        def __init__(self, device: Any, clock: Any) -> None:
            self.busy_until_s, self.reads = 100.0, 0

        def stamp(self) -> float:
            return self.busy_until_s

        def read(self, event: float) -> float:
            self.reads += 1
            return event

    monkeypatch.setattr(timeline_module, "GpuClock", Gpu)
    timeline = Timeline(device="cuda:0", clock=clock)
    gpu: Any = timeline._gpu
    with timeline.span("forward"):
        gpu.busy_until_s += 7
    with timeline.span("loader", kind="wait"):
        clock.now_s += 1
    assert gpu.reads == 0
    assert timeline.time_s("forward") == 6  # the host's wait began later and takes its second
    assert timeline.time_s("loader") == 1
    assert gpu.reads == 2


@pytest.mark.parametrize("kind", ["", "computing", "Compute"])
def test_an_unknown_kind_is_told_the_kinds(kind: str) -> None:
    with pytest.raises(ValueError, match="the kinds are compute, send"):
        Span(0, "x", kind, 0, 1)
    with pytest.raises(ValueError, match="the kinds are"), Timeline().span("x", kind=kind):
        pass
    with pytest.raises(ValueError, match="the kinds are"):
        Timeline().time_s(kind=kind)


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="empty but not negative"):
        Span(0, "x", "compute", 2.0, 1.0)
    with pytest.raises(ValueError, match="empty but not negative"):
        Span(0, "x", "compute", 2.0, float("nan"))
