"""A span of a rank's time, and spans as events of a trace that Perfetto opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "Span", "check_kind", "name_event", "nested_lanes", "trace_events"]

KINDS = ("compute", "send", "recv", "collective", "wait", "idle", "data")


@dataclass(frozen=True)
class Span:
    """Something that a rank did between two moments of the host's monotonic clock."""

    rank: int
    name: str
    kind: str
    start_s: float
    end_s: float

    def __post_init__(self) -> None:
        check_kind(self.kind)
        if not self.end_s >= self.start_s:
            raise ValueError(
                f"the span {self.name!r} ends at {self.end_s} s, before its start at {self.start_s} s; "
                "a span may be empty but not negative"
            )

    @property
    def time_s(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


def check_kind(kind: str) -> None:
    """Refuse a kind that is none of ``KINDS`` with a ``ValueError``."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of span; the kinds are {', '.join(KINDS)}")


def trace_events(spans: Iterable[Span], *, zero_s: float = 0.0) -> list[dict[str, Any]]:
    """Events of Chrome's trace format: a process for each rank, in it a thread for each kind, times in us.

    Within a thread the format knows only spans that lie inside one another. Where spans of a kind cross, as
    collectives in flight at the same time do, the kind gets further threads: "collective (2)".
    """
    by_track: dict[tuple[int, str], list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.start_s, -span.end_s)):
        by_track.setdefault((span.rank, span.kind), []).append(span)
    names: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for (rank, kind), mine in sorted(by_track.items(), key=lambda item: (item[0][0], KINDS.index(item[0][1]))):
        lanes = nested_lanes([(span.start_s, span.end_s) for span in mine])
        for lane in range(max(lanes) + 1):
            name = kind if lane == 0 else f"{kind} ({lane + 1})"
            names.append(name_event("thread_name", rank, _thread(kind, lane), name))
        for span, lane in zip(mine, lanes, strict=True):
            track = {"pid": rank, "tid": _thread(kind, lane)}
            when = {"ts": (span.start_s - zero_s) * 1e6, "dur": span.time_s * 1e6}
            events.append({"ph": "X", "name": span.name, "cat": kind, **track, **when})
    return names + sorted(events, key=lambda event: event["ts"])


def name_event(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    """The event that names a process ("process_name") or a thread ("thread_name")."""
    return {"ph": "M", "name": what, "pid": rank, "tid": thread, "args": {"name": name}}


def nested_lanes(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """A lane for each interval (start, end), so that two of one lane are apart or one lies inside the other.

    ``intervals`` by their start, the longer first.
    """
    open_ends: list[list[float]] = []  # of each lane, the innermost last
    chosen = []
    for start, end in intervals:
        for ends in open_ends:
            while ends and ends[-1] <= start:
                ends.pop()
        fitting = (lane for lane, ends in enumerate(open_ends) if not ends or end <= ends[-1])
        lane = next(fitting, len(open_ends))
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(end)
        chosen.append(lane)
    return chosen


def _thread(kind: str, lane: int) -> int:
    return KINDS.index(kind) + len(KINDS) * lane
