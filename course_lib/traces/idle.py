"""Why a device was idle: what it did next had not been launched, was being launched, or waited for something.

A gap ends with the work that begins then. Before the host began to launch that work, the device waited for the host.
After it, a start takes some microseconds; where it took more than ``STARTING_US``, the work had been launched and was
held up: by an event of another stream, or by a copy. Where a trace has no launches (a table), none of this is told.

What the host did meanwhile is told by the program's own annotations, of which the outermost counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.traces.breakdown import busy, window_us
from course_lib.traces.intervals import Intervals, common, gaps, length, minus, union
from course_lib.traces.rank_trace import HostSpan, RankTrace, Work

__all__ = ["STARTING_US", "IdleTime", "idle_time"]

STARTING_US = 20.0


@dataclass(frozen=True)
class IdleTime:
    """``host_us`` + ``starting_us`` + ``held_us`` + ``untold_us`` is all of the device's idle time."""

    host_us: float  # what came next had not been launched
    starting_us: float  # launched, and begun within STARTING_US
    held_us: float  # launched, and begun later
    untold_us: float  # no launch of what came next is in the trace
    by_annotation: tuple[tuple[str, float], ...]  # the outermost annotation of the program then; "" outside of all
    synchronising_us: float  # of the whole window: the host waits for the device
    num_synchronisations: int


@dataclass
class _Sums:
    """The sums of ``IdleTime`` while they are added up."""

    host_us: float = 0.0
    starting_us: float = 0.0
    held_us: float = 0.0
    untold_us: float = 0.0

    def add_start(self, time_us: float) -> None:
        """From a launch to the beginning of what it launched."""
        if time_us <= STARTING_US:
            self.starting_us += time_us
        else:
            self.held_us += time_us


def idle_time(trace: RankTrace, device: int) -> IdleTime:
    """Each gap of a device by its reason, and by what the host's program was at."""
    start, end = window_us(trace, device)
    works = trace.work[device]
    idle = gaps(busy(works), start, end)
    launches = _earliest_launches(works)
    has_launches = any(launched is not None for launched in launches.values())
    times = _Sums()
    for gap_start, gap_end in idle.tolist():
        launched = launches.get(gap_end)
        if launched is not None:
            launched = min(max(launched, gap_start), gap_end)
            times.host_us += launched - gap_start
            times.add_start(gap_end - launched)
        elif has_launches and gap_end not in launches:  # after the last work nothing more was launched
            times.host_us += gap_end - gap_start
        else:
            times.untold_us += gap_end - gap_start
    waits = common(union((one.start_us, one.end_us) for one in trace.synchronisations), union([(start, end)]))
    return IdleTime(
        **vars(times),
        by_annotation=_by_annotation(idle, trace.annotations),
        synchronising_us=length(waits),
        num_synchronisations=sum(start <= one.start_us <= end for one in trace.synchronisations),
    )


def _earliest_launches(works: Sequence[Work]) -> dict[float, float | None]:
    """For each moment in us at which work begins, when the first of it was launched; None where none is told."""
    launches: dict[float, float | None] = {}
    for work in works:
        told = [us for us in (launches.get(work.start_us), work.launched_us) if us is not None]
        launches[work.start_us] = min(told, default=None)
    return launches


def _by_annotation(idle: Intervals, annotations: Sequence[HostSpan]) -> tuple[tuple[str, float], ...]:
    """Idle time by the outermost annotation, the longest first."""
    outermost: dict[str, list[tuple[float, float]]] = {}
    until = float("-inf")
    for one in sorted(annotations, key=lambda block: (block.start_us, -block.end_us)):
        if one.end_us > until:
            outermost.setdefault(one.name, []).append((max(one.start_us, until), one.end_us))
            until = one.end_us
    found = {name: length(common(idle, union(pairs))) for name, pairs in outermost.items()}
    outside = minus(idle, union(pair for pairs in outermost.values() for pair in pairs))
    if outermost:
        found[""] = length(outside)
    return tuple(sorted(((name, time) for name, time in found.items() if time > 0), key=lambda item: -item[1]))
