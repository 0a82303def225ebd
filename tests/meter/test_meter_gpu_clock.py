"""A GPU's events on the host's clock; with a stand-in for the GPU, whose clock drifts, and whose times are float32."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy
import pytest
import torch

from course_lib.meter import Timeline

DRIFT = 20e-6  # of quartz clocks
HOUR_S = 3600.0
LOOK_S, WAKE_S = 1e-6, 5e-6  # what the host takes for a call, and until it hears of an event


class Gpu:
    """A host's clock that a test moves, and a device beside it whose streams have work until some moment of it."""

    def __init__(self) -> None:
        self.now_s, self.late_s = 1000.0, [0.0]

    def __call__(self) -> float:
        self.now_s += LOOK_S
        return self.now_s

    def stream(self, device: Any = None) -> Stream:
        return Stream()

    def event(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)


class Stream:
    busy_until_s = 0.0

    def compute(self, gpu: Gpu, time_s: float) -> None:
        self.busy_until_s = max(self.busy_until_s, gpu.now_s) + time_s


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self, stream: Stream) -> None:
        self.gpu.now_s += LOOK_S
        stream.compute(self.gpu, 0.6e-6)  # to note an event takes a device a moment, too
        self.done_s = stream.busy_until_s

    def synchronize(self) -> None:
        late_s = self.gpu.late_s.pop() if len(self.gpu.late_s) > 1 else self.gpu.late_s[0]
        self.gpu.now_s = max(self.gpu.now_s, self.done_s) + WAKE_S + late_s

    def elapsed_time(self, other: Event) -> float:
        return float(numpy.float32((other.done_s - self.done_s) * (1 + DRIFT) * 1e3))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    monkeypatch.setattr(torch.cuda, "Stream", gpu.stream)
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    return gpu


@pytest.fixture
def stream(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The one on which the program computes."""
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    return stream


def test_after_hours_a_span_is_as_long_and_where_it_was(gpu: Gpu, stream: Stream) -> None:
    timeline = Timeline(device="cuda:0", clock=gpu)
    began_s = []
    for _ in range(40):
        gpu.now_s += 3 * HOUR_S / 40
        began_s.append(gpu.now_s)
        with timeline.span("a kernel"):
            stream.compute(gpu, 100e-6)
    spans = timeline.spans
    assert [span.time_s for span in spans] == pytest.approx([100.6e-6] * 40, abs=1e-7)
    assert [span.start_s for span in spans] == pytest.approx(began_s, abs=50e-6, rel=0)


def test_reading_late_changes_no_place(gpu: Gpu, stream: Stream) -> None:
    timeline = Timeline(device="cuda:0", clock=gpu)
    began_s = gpu.now_s
    with timeline.span("a kernel"):
        stream.compute(gpu, 100e-6)
    gpu.now_s += HOUR_S
    with timeline.span("another", kind="send"):
        pass
    assert timeline.spans[0].start_s == pytest.approx(began_s, abs=50e-6, rel=0)
    assert timeline.spans[0].time_s == pytest.approx(100.6e-6, abs=1e-7)


def test_nothing_waits_for_the_program_while_it_runs(gpu: Gpu, stream: Stream) -> None:
    stream.compute(gpu, 60.0)
    timeline = Timeline(device="cuda:0", clock=gpu)
    began_s = gpu.now_s
    for _ in range(5):
        with timeline.span("a kernel"):
            gpu.now_s += 2.0
    assert gpu.now_s < began_s + 10.0 + 0.001
    assert timeline.spans[0].start_s == pytest.approx(stream.busy_until_s, abs=1e-3)


def test_what_lies_within_or_beside_a_span_stays_there(gpu: Gpu, stream: Stream) -> None:
    """Also where the device is seconds behind the host: then an event comes after anchors that were set after it."""
    timeline, dice = Timeline(device="cuda:0", clock=gpu), random.Random(0)
    for step in range(400):
        with timeline.span("step"):
            for _ in range(3):
                with timeline.span("layer"):
                    stream.compute(gpu, dice.uniform(0, 0.02))
                    gpu.now_s += 0.01 if step % 100 < 50 else 0.03
    lanes = {event["args"]["name"] for event in timeline.chrome_trace()["traceEvents"] if event["ph"] == "M"}
    assert lanes == {"rank 0", "compute"}, "a span that crossed another would have a lane of its own"
    assert timeline.wall_s > 10


def test_an_anchor_at_which_the_host_was_busy_elsewhere_does_not_count(gpu: Gpu, stream: Stream) -> None:
    gpu.late_s = [0.0, 0.0, 0.004]  # the first look of three
    timeline = Timeline(device="cuda:0", clock=gpu)
    began_s = gpu.now_s
    with timeline.span("a kernel"):
        stream.compute(gpu, 100e-6)
    assert timeline.spans[0].start_s == pytest.approx(began_s, abs=50e-6, rel=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_span_lies_where_the_host_saw_it() -> None:
    timeline, x = Timeline(device="cuda:0"), torch.ones(4096, 4096, device="cuda:0")
    x @ x  # the first one loads the kernel
    for _ in range(3):
        torch.cuda.synchronize()
        began_s = time.perf_counter()
        with timeline.span("product"):
            for _ in range(20):
                x @ x
        torch.cuda.synchronize()
        ended_s = time.perf_counter()
        time.sleep(1.1)  # for the next anchor
        span = timeline.spans[-1]
        assert began_s - 1e-3 < span.start_s < span.end_s < ended_s + 1e-3
