"""What torch.profiler wrote, as work on devices: kernels and copies of a GPU, or the host's operators and gloo's calls.

Categories are Kineto's (libkineto/include/ActivityType.h). Which launch a kernel belongs to is told by ``correlation``,
which ``record_param_comms`` by ``External id``. A trace of ``profiled`` (lesson 04) holds several ranks, each a process
"rank 0"; that of a job holds one.

Of a trace without a GPU computing is what operators do (``aten::mm``), as gloo's calls are annotations ``gloo:`` on
threads of their own. An operator within which ranks communicate (``c10d::``) does not compute meanwhile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from course_lib.traces.collectives import (
    collective_of,
    input_bytes,
    is_communication,
    operation_name,
    size_of_inputs,
)
from course_lib.traces.intervals import minus, union
from course_lib.traces.json_stream import TraceFileError
from course_lib.traces.rank_trace import COMMUNICATION, COMPUTING, COPY, HostSpan, RankTrace, Work

__all__ = ["MOST_EVENTS", "ranks_in"]

MOST_EVENTS = 4_000_000
HOST = -1  # the device of a trace without a GPU
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime")
_WRAPPERS = ("autograd::", "torch::autograd::", "c10d::", "_c10d_functional::", "c10d_functional::")
_COMMUNICATES = ("c10d::", "_c10d_functional::", "c10d_functional::", "record_param_comms")
_RANK = re.compile(r"rank (\d{1,7})")


class _Process:
    """What is kept of one rank's events."""

    def __init__(self) -> None:
        self.kernels: list[tuple[float, float, dict[str, Any], str, str]] = []
        self.launched_us: dict[int, float] = {}
        self.params: dict[int, dict[str, Any]] = {}
        self.operators: list[tuple[float, float]] = []
        self.communicating: list[tuple[float, float]] = []
        self.gloo: list[Work] = []
        self.steps: list[HostSpan] = []
        self.annotations: list[HostSpan] = []
        self.synchronisations: list[HostSpan] = []

    def take(self, event: dict[str, Any], start_us: float, end_us: float) -> None:
        category, name, args = event.get("cat"), str(event.get("name", "")), event.get("args")
        args = args if isinstance(args, dict) else {}
        if category in _KERNELS:
            self.kernels.append((start_us, end_us, args, str(category), name))
        elif category in _LAUNCHES:
            correlation = args.get("correlation")
            if isinstance(correlation, int):
                self.launched_us[correlation] = start_us
            if "ynchronize" in name:
                self.synchronisations.append(HostSpan(start_us, end_us, name))
        elif category == "cpu_op":
            self._take_operator(name, args, start_us, end_us)
        elif category == "user_annotation":
            self._take_annotation(name, args, start_us, end_us)

    def _take_operator(self, name: str, args: dict[str, Any], start_us: float, end_us: float) -> None:
        if name == "record_param_comms" and isinstance(args.get("External id"), int):
            self.params[args["External id"]] = args
        if name.startswith(_COMMUNICATES):
            self.communicating.append((start_us, end_us))
        elif "::" in name and not name.startswith(_WRAPPERS):
            self.operators.append((start_us, end_us))

    def _take_annotation(self, name: str, args: dict[str, Any], start_us: float, end_us: float) -> None:
        if name.startswith("ProfilerStep"):
            self.steps.append(HostSpan(start_us, end_us, name))
        elif name.startswith("gloo:"):
            operation = operation_name(name.removeprefix("gloo:"))
            work = Work(start_us, end_us, COMMUNICATION, "gloo", operation, size_of_inputs(args))
            self.gloo.append(work)
        elif not name.startswith("nccl:"):
            self.annotations.append(HostSpan(start_us, end_us, name))

    def work(self) -> dict[int, list[Work]]:
        """By device, by start; of the host alone where there is no GPU."""
        found: dict[int, list[Work]] = {}
        for start_us, end_us, args, category, name in self.kernels:
            device, work = self._kernel(start_us, end_us, args, category, name)
            found.setdefault(device, []).append(work)
        if not found:
            computing = minus(union(self.operators), union(self.communicating))
            host = [Work(start, end, COMPUTING, "host") for start, end in computing.tolist()]
            found = {HOST: host + self.gloo} if host or self.gloo else {}
        return {device: sorted(works) for device, works in sorted(found.items())}

    def _kernel(
        self, start_us: float, end_us: float, args: dict[str, Any], category: str, name: str
    ) -> tuple[int, Work]:
        device = args.get("device")
        device = device if isinstance(device, int) and device >= 0 else 0
        launched = args.get("correlation")
        launched_us = self.launched_us.get(launched) if isinstance(launched, int) else None
        lane = f"stream {args.get('stream', '?')}"
        if category != "kernel" or not is_communication(name):
            kind = COPY if category == "gpu_memcpy" and _is_between_host_and_device(name) else COMPUTING
            return device, Work(start_us, end_us, kind, lane, launched_us=launched_us)
        more = self.params.get(args.get("External id", -1), {})
        told = args if "Collective name" in args else {**more, **args}
        size_bytes = input_bytes(told)
        group = f"{told.get('Process Group Name', '')} {told.get('Process Group Ranks', '')}".strip()
        collective = collective_of(name, told) or "other"
        return device, Work(start_us, end_us, COMMUNICATION, lane, collective, size_bytes, group, launched_us)


def _is_between_host_and_device(name: str) -> bool:
    return "HtoD" in name or "DtoH" in name or "Host" in name


def ranks_in(pairs: Iterable[tuple[str, Any]], source: str, place: int) -> list[RankTrace]:
    """The ranks of one file; ``place`` is the rank where the file does not tell it.

    Raises ``TraceFileError`` where nothing in it is work, or more than ``MOST_EVENTS`` events are.
    """
    about: Any = {}
    processes: dict[Any, _Process] = {}
    names: dict[Any, int] = {}
    count = 0
    for name, value in pairs:
        if name == "distributedInfo":
            about = value
        elif name == "traceEvents" and isinstance(value, dict):
            if value.get("ph") == "M" and value.get("name") == "process_name":
                _note_rank(value, names)
            elif (times := _times_us(value)) is not None:
                count += 1
                if count > MOST_EVENTS:
                    raise TraceFileError(
                        f"it holds more than {MOST_EVENTS:,} events, and this command reads at most that many"
                    )
                pid = value.get("pid")
                processes.setdefault(pid if isinstance(pid, int) else None, _Process()).take(value, *times)
    about = about if isinstance(about, dict) else {}
    found = _apart(processes, names, about, source, place)
    if not any(trace.work for trace in found):
        raise TraceFileError(
            f"none of its {count:,} events is a kernel, an operator or a call of gloo. Record it by torch.profiler, "
            "with ProfilerActivity.CPU and, on a GPU, ProfilerActivity.CUDA"
        )
    return [trace for trace in found if trace.work]


def _note_rank(event: dict[str, Any], names: dict[Any, int]) -> None:
    args, pid = event.get("args"), event.get("pid")
    told = _RANK.fullmatch(str(args.get("name")).strip()) if isinstance(args, dict) else None
    if told and isinstance(pid, int):
        names[pid] = int(told[1])


def _times_us(event: dict[str, Any]) -> tuple[float, float] | None:
    """Start and end of a complete event; None for what has no duration, or none that is a number."""
    start, duration = event.get("ts"), event.get("dur")
    if event.get("ph") != "X" or isinstance(start, bool) or isinstance(duration, bool):
        return None
    if not isinstance(start, int | float) or not isinstance(duration, int | float) or duration < 0:
        return None
    try:
        end = float(start) + float(duration)
    except OverflowError:
        return None
    return (float(start), end) if math.isfinite(end) and math.isfinite(start) else None


def _apart(
    processes: dict[Any, _Process], names: dict[Any, int], about: dict[str, Any], source: str, place: int
) -> list[RankTrace]:
    """A trace for each process that is named as a rank; else one for all processes of the file."""
    if len(set(names.values())) == len(names) > 0:
        groups = [(rank, True, [processes[pid]]) for pid, rank in sorted(names.items()) if pid in processes]
    else:
        told = about.get("rank")
        is_told = isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 20
        groups = [(told if is_told else place, is_told, list(processes.values()))]
    groups_told = about.get("pg_config")
    num_groups = len(groups_told) if isinstance(groups_told, list) else None
    traces = []
    for rank, is_told, members in groups:
        joined = _joined(members)
        trace = RankTrace(source, rank, is_told, joined.work(), num_groups=num_groups)
        trace.steps, trace.annotations = sorted(joined.steps), sorted(joined.annotations)
        trace.synchronisations = sorted(joined.synchronisations)
        traces.append(trace)
    return traces


def _joined(members: list[_Process]) -> _Process:
    """A GPU's kernels stand in the trace as a process of their own, named by the device."""
    if len(members) == 1:
        return members[0]
    joined = _Process()
    for one in members:
        for name, value in vars(one).items():
            mine = getattr(joined, name)
            mine.update(value) if isinstance(value, dict) else mine.extend(value)
    return joined
