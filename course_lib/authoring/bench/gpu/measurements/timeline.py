"""Step ``timeline``: the spans of a timeline against device events and the profiler, also on two streams.

On a GPU a call returns before its work is done, so a span read off the host's clock would be wrong; these are read from
device events. Work of a known length is a kernel that spins for so many cycles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.authoring.bench.gpu.measurements.peak import times_s
from course_lib.authoring.bench.gpu.task import BenchTask
from course_lib.meter import Timeline

if TYPE_CHECKING:
    import torch

__all__ = ["run"]

_SPIN_S = 0.020
_MOST_OFF = 0.05  # of a span's length


def run(task: BenchTask) -> None:
    """Spans of the host everywhere; spans of a device where there is one."""
    with task.part("spans of the host's waiting"):
        _host(task)
    for name, trial in {
        "a span lasts as long as its work": _one_stream,
        "the call returns before its span ends": _asynchronous,
        "spans on two streams overlap": _two_streams,
        "a span agrees with the profiler": _profiled,
    }.items():
        if task.has_gpus(name, 1):
            with task.part(f"{name}: the trial itself"):
                trial(task, name)


def _host(task: BenchTask) -> None:
    timeline = Timeline(device=task.device_name)
    for _ in range(task.rounds):
        with timeline.span("sleep", kind="wait"):
            time.sleep(_SPIN_S)
    off = [1e3 * (span.end_s - span.start_s - _SPIN_S) for span in timeline.spans]
    task.table.add("a span of waiting is longer than the sleep by", off, "ms")


def _spin() -> Callable[[], None]:
    """A kernel of about ``_SPIN_S``: how many cycles that is, is measured first."""
    import torch

    torch.cuda._sleep(1_000_000)
    cycles = 50_000_000
    time_s = min(times_s(lambda: torch.cuda._sleep(cycles), "cuda", 3))
    return lambda: torch.cuda._sleep(int(cycles * _SPIN_S / time_s))


def _one_stream(task: BenchTask, name: str) -> None:
    import torch

    spin, timeline, events = _spin(), Timeline(device="cuda"), []
    for _ in range(task.rounds):
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        with timeline.span("spin"):
            pair[0].record()
            spin()
            pair[1].record()
        events.append(pair)
    torch.cuda.synchronize()
    spans = [span.end_s - span.start_s for span in timeline.spans]
    wanted = [one.elapsed_time(other) / 1e3 for one, other in events]
    off = [abs(found / want - 1) for found, want in zip(spans, wanted, strict=True)]
    task.table.add("a span beside its events: off by", [100 * one for one in off], "%")
    task.judge(name, max(off) <= _MOST_OFF, f"at most {max(off):.2%} off, of {_SPIN_S * 1e3:.0f} ms")


def _asynchronous(task: BenchTask, name: str) -> None:
    spin, timeline = _spin(), Timeline(device="cuda")
    began_s = time.perf_counter()
    with timeline.span("spin"):
        spin()
    returned_s = time.perf_counter()
    (span,) = timeline.spans
    text = f"the call took {1e3 * (returned_s - began_s):.2f} ms, its span {1e3 * (span.end_s - span.start_s):.2f} ms"
    holds = returned_s < span.end_s and span.start_s > began_s - 1e-3
    task.judge(name, holds, text)


def _two_streams(task: BenchTask, name: str) -> None:
    import torch

    spin, timeline = _spin(), Timeline(device="cuda")
    streams: list[torch.cuda.Stream] = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for number, stream in enumerate(streams):
        with torch.cuda.stream(stream), timeline.span(f"stream {number}"):
            spin()
    one, other = timeline.spans
    overlap_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
    task.table.add("two spins on two streams: wall time", [1e3 * timeline.wall_s], "ms")
    shorter_s = min(span.end_s - span.start_s for span in (one, other))
    text = f"{1e3 * overlap_s:.2f} ms of {1e3 * shorter_s:.2f} ms side by side"
    task.judge(name, overlap_s > 0.8 * shorter_s, text)


def _profiled(task: BenchTask, name: str) -> None:
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    a, b = torch.randn(2, 4096, 4096, device="cuda")
    a @ b
    torch.cuda.synchronize()
    timeline = Timeline(device="cuda")
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as trace:
        with timeline.span("products"):
            for _ in range(20):
                a @ b
        torch.cuda.synchronize()
    kernels = [event for event in trace.events() or () if event.device_type == DeviceType.CUDA]
    # The span's own note stands in the trace of the device too, under its name: it is no kernel.
    kernels_s = sum(event.time_range.elapsed_us() for event in kernels if event.name != "products") / 1e6
    span_s = timeline.time_s("products")
    text = f"span {1e3 * span_s:.2f} ms, kernels by the profiler {1e3 * kernels_s:.2f} ms"
    task.judge(name, kernels_s > 0 and 0.8 <= span_s / kernels_s <= 1.25, text)
