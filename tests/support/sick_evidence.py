"""Evidence of the sick runs as it would be on a quiet machine: spans made by hand, in milliseconds."""

from __future__ import annotations

from course_lib.learn.sick.sick_runs.evidence import RunEvidence
from course_lib.learn.sick.sick_runs.job import MIB
from course_lib.meter.clocks.timeline import Span

__all__ = ["made"]

Box = tuple[str, str, float, float]


def _data_parallel(backward: float, sums: list[tuple[float, float]]) -> list[Box]:
    boxes = [("forward", "compute", 0.0, 35.0), ("backward", "compute", 35.0, 35.0 + backward)]
    return boxes + [("all_reduce", "collective", *one) for one in sums]


def _buckets(backward: float) -> list[tuple[float, float]]:
    ends = [35.0 + backward * part / 4 for part in (1, 2, 3, 4)]
    return [(end, end + 11.0) for end in ends]


def _tensor(begin: float, sum_ms: float) -> list[Box]:
    boxes: list[Box] = [("data", "data", 0.0, begin)]
    for name, time_ms in [("forward", 4.0)] * 8 + [("backward", 8.0)] * 8:
        boxes.append((name, "compute", begin, begin + time_ms))
        boxes.append(("all_reduce", "collective", begin + time_ms, begin + time_ms + sum_ms))
        begin += time_ms + sum_ms
    return boxes


def _stage(rank: int) -> list[Box]:
    """Of four stages, two micro-batches: forwards of 16 ms in a staircase up, backwards of 32 down."""
    up = [("forward", "compute", 16.0 * (rank + one), 16.0 * (rank + one + 1)) for one in (0, 1)]
    begin = 80.0 + 32.0 * (3 - rank)
    down = [("backward", "compute", begin + 40 * one, begin + 40 * one + 32) for one in (0, 1)]
    return [*up, ("recv", "recv", 16.0 * (rank + 2), begin), *down]


def _slow(rank: int) -> list[Box]:
    """Two stages and two replicas; boxes of rank 2 take twice as long."""
    factor, boxes, now = 1 + (rank == 2), [], 10.0 * (rank >= 2)
    for name, time_ms in [("forward", 9.0), ("backward", 18.0)] * 4:
        boxes.append((name, "compute", now, now + factor * time_ms))
        now += factor * time_ms
    end = 10.0 + 8 * 27.0
    return [*boxes, ("all_reduce", "collective", now, end + 5.0)]


_BOXES = {
    "0": lambda rank: _data_parallel(70.0, _buckets(70.0)),
    "A": lambda rank: _tensor(150.0, 3.0),
    "B": _stage,
    "C": lambda rank: _data_parallel(105.0, _buckets(105.0)),
    "D": lambda rank: _tensor(0.0, 10.0),
    "E": lambda rank: _data_parallel(70.0, [(105.0, 168.0)]),
    "F": _slow,
}
_CROSSING = {"0": 4, "A": 4, "B": 4, "C": 4, "D": 16, "E": 1, "F": 8}
_MEMORY = {"0": 20.0, "A": 14.0, "B": 11.0, "C": 13.5, "D": 14.0, "E": 20.0, "F": 10.0}


def made(like: str, name: str = "") -> RunEvidence:
    """What run ``like`` shows, under the name of another one if that is given."""
    spans = [
        Span(rank, word, kind, begin / 1e3, end / 1e3)
        for rank in range(4)
        for word, kind, begin, end in _BOXES[like](rank)
        if end > begin
    ]
    sent = [[0, 1000, 2000, 0], [1000, 0, 0, 2000], [2000, 0, 0, 1000], [0, 2000, 1000, 0]]
    return RunEvidence(
        name=name or like,
        step_s=max(span.end_s for span in spans) + 0.002,
        spans=tuple(sorted(spans, key=lambda span: span.start_s)),
        memory_bytes=(round(_MEMORY[like] * MIB),) * 4,
        device_bytes=32 * MIB,
        sent_bytes=tuple(map(tuple, sent)),
        crossing_calls=(_CROSSING[like],) * 4,
        useful_s=0.096,
    )
