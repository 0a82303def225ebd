"""What a run shows: its time, what each rank did in it, its memory, and the bytes by link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from course_lib.learn.sick.sick_runs.intervals import exposed_s, union
from course_lib.learn.sick.sick_runs.job import LINKS, MIB, SickJob
from course_lib.learn.sick.sick_runs.program import SickStepRecord
from course_lib.meter.clocks.timeline import Span, Timeline
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.communication import Communication

__all__ = ["RunEvidence", "evidence_of", "is_steady"]

_KIND = {"compute": "compute", "collective": "communication", "recv": "communication", "data": "data"}
_COLUMNS = {"rank": 4, "node": 6, "computes": 10, "talks only": 12, "reads": 7, "idle": 6}
_COLUMNS |= {"memory": 10, "in node": 10, "to other": 10}
_HEAD = "".join(f"{name:>{wide}}" for name, wide in _COLUMNS.items())


@dataclass(frozen=True)
class RunEvidence:
    """The quickest step of a run. Times in seconds; spans of all ranks on one clock that begins at 0."""

    name: str
    step_s: float
    spans: tuple[Span, ...]  # what was computed, read, summed and received; not what was sent
    memory_bytes: tuple[int, ...]  # the most that each rank kept
    device_bytes: int
    sent_bytes: tuple[tuple[int, ...], ...]  # [from][to]
    crossing_calls: tuple[int, ...]  # of each rank: sums and messages that leave its node
    useful_s: float  # the model's own arithmetic, shared out evenly

    @property
    def num_ranks(self) -> int:
        return len(self.memory_bytes)

    @property
    def useful_share(self) -> float:
        """The model's arithmetic over what the devices could have done in the step: its MFU, at paced speed."""
        return self.useful_s / self.step_s

    def spans_of(self, rank: int) -> list[tuple[float, float, str]]:
        """(begin_s, end_s, kind) of one rank; kind is "compute", "communication" or "data"."""
        return [(span.start_s, span.end_s, _KIND[span.kind]) for span in self.spans if span.rank == rank]

    def busy_s(self, rank: int, kind: str) -> float:
        """Seconds in which a rank has a span of this kind open."""
        mine = ((begin_s, end_s) for begin_s, end_s, one in self.spans_of(rank) if one == kind)
        return sum(end_s - begin_s for begin_s, end_s in union(mine))

    def shares(self, rank: int) -> tuple[float, float, float, float]:
        """Of the step: computing, communicating and nothing else, reading, idle."""
        computing, reading = (self.busy_s(rank, kind) / self.step_s for kind in ("compute", "data"))
        talking = exposed_s(self.spans_of(rank)) / self.step_s
        return computing, talking, reading, max(0.0, 1 - computing - talking - reading)

    def box_s(self, rank: int, name: str) -> float:
        """How long a "forward" or "backward" of a rank takes, at the median."""
        return median(span.time_s for span in self.spans if (span.rank, span.name) == (rank, name))

    def node_bytes(self, rank: int) -> tuple[int, int]:
        """What a rank sends within its node, and to the other one."""
        row, node = self.sent_bytes[rank], LINKS.node_of
        inside = sum(size for other, size in enumerate(row) if node(other) == node(rank))
        return inside, sum(row) - inside

    def table(self) -> str:
        """A line for each rank."""
        lines = [_HEAD]
        for rank in range(self.num_ranks):
            cells = [
                str(rank),
                str(LINKS.node_of(rank)),
                *(f"{share:.0%}" for share in self.shares(rank)),
                f"{self.memory_bytes[rank] / MIB:.1f} MiB",
                *(f"{size / 1000:,.0f} kB" for size in self.node_bytes(rank)),
            ]
            lines.append("".join(f"{cell:>{wide}}" for cell, wide in zip(cells, _COLUMNS.values(), strict=True)))
        return "\n".join(lines)

    def timeline(self) -> Timeline:
        """To be drawn by ``gantt``."""
        return Timeline.join([self.spans])

    def __repr__(self) -> str:
        return (
            f"run {self.name}: a step takes {self.step_s * 1e3:.0f} ms; the model's own arithmetic is "
            f"{self.useful_share:.0%} of that\n{self.table()}\na device has {self.device_bytes / MIB:.0f} MiB"
        )


_STEADY = 1.05  # how much longer than the quickest step the next one may take


def _lengths_s(by_rank: Sequence[Sequence[SickStepRecord]]) -> list[float]:
    """Of each step, from the first rank's begin to the last one's end."""
    return [max(one.end_s for one in step) - min(one.start_s for one in step) for step in zip(*by_rank, strict=True)]


def is_steady(by_rank: Sequence[Sequence[SickStepRecord]]) -> bool:
    """Whether a second step takes as long as the quickest one: on a busy machine each takes longer in its own way."""
    quickest_s, *others_s = sorted(_lengths_s(by_rank))
    return bool(others_s) and others_s[0] <= _STEADY * quickest_s


def evidence_of(name: str, job: SickJob, by_rank: Sequence[Sequence[SickStepRecord]]) -> RunEvidence:
    """From the records of all ranks, the quickest step."""
    lengths_s = _lengths_s(by_rank)
    best = lengths_s.index(min(lengths_s))
    step = [steps[best] for steps in by_rank]
    begin_s, num_ranks = min(one.start_s for one in step), len(step)
    spans = [span for one in step for span in one.spans if span.time_s > 0]
    calls = [call for one in step for call in one.calls]
    spans += [span for call in calls if call.operation != "send" and (span := call.span())]
    moved = [Span(span.rank, span.name, span.kind, span.start_s - begin_s, span.end_s - begin_s) for span in spans]
    crossing = Counter(call.rank for call in calls if _leaves_its_node(call))
    return RunEvidence(
        name=name,
        step_s=lengths_s[best],
        spans=tuple(sorted(moved, key=lambda span: (span.start_s, -span.end_s))),
        memory_bytes=tuple(one.peak_bytes for one in step),
        device_bytes=job.device_bytes,
        sent_bytes=tuple(map(tuple, Communication(num_ranks, tuple(calls)).matrix())),
        crossing_calls=tuple(crossing[rank] for rank in range(num_ranks)),
        useful_s=job.useful_s(num_ranks),
    )


def _leaves_its_node(call: Call) -> bool:
    """Whether the ranks that take part are on different nodes."""
    ends = call.group if call.peer is None else (call.rank, call.peer)
    return len({LINKS.node_of(rank) for rank in ends}) > 1
