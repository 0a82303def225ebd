"""What traces say, in one object: as text, as JSON's values, as a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.base.foreign_text import one_line
from course_lib.base.text import counted
from course_lib.meter.units import bytes_text, time_text
from course_lib.traces.breakdown import CollectiveRow, DeviceTime, breakdown
from course_lib.traces.device_report import DeviceReport
from course_lib.traces.idle import idle_time
from course_lib.traces.rank_trace import RankTrace
from course_lib.traces.read import read_traces
from course_lib.traces.stragglers import Stragglers, stragglers

if TYPE_CHECKING:
    from course_lib.plot.style import Picture

__all__ = ["TraceReport", "trace_report"]

_PERFETTO = "https://ui.perfetto.dev"
_MOST_ROWS = 12
_MOST_PHASES = 6
_NAME_WIDTH, _WIDTHS = 16, (13, 7, 12, 12, 11, 11, 11)


@dataclass(frozen=True, repr=False)
class TraceReport:
    """Every device of every rank, and who waited for whom. As text it is a page; ``picture()`` draws it."""

    devices: tuple[DeviceReport, ...]
    stragglers: Stragglers
    is_for_perfetto: bool  # not where all of the files are tables

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; times in us."""
        return {
            "format": 1,
            "devices": [dataclasses.asdict(one) for one in self.devices],
            "stragglers": {**dataclasses.asdict(self.stragglers), "straggler": self.stragglers.straggler},
            "perfetto": _PERFETTO if self.is_for_perfetto else None,
        }

    def picture(self) -> Picture:
        """A bar for each device: where its time went."""
        from course_lib.traces.picture import picture_of  # with matplotlib, which the text does without

        return picture_of(self.devices)

    def __repr__(self) -> str:
        named = _short_names({one.source for one in self.devices})
        parts = [part for one in self.devices for part in _device_lines(one, named[one.source])]
        return "\n".join([*parts, *_straggler_lines(self.stragglers), *_perfetto(self.is_for_perfetto)])


def trace_report(*names: str | Path) -> TraceReport:
    """What these files say: traces of ``torch.profiler``, plain or ``.gz``, or tables; see ``read_traces``."""
    return report_of(read_traces(*names))


def report_of(traces: Sequence[RankTrace]) -> TraceReport:
    """Of traces that have been read."""
    devices = tuple(
        DeviceReport(trace.source, device >= 0, breakdown(trace, device), idle_time(trace, device))
        for trace in traces
        for device in trace.work
    )
    return TraceReport(devices, stragglers(traces), not all(trace.is_table for trace in traces))


def _ms(time_us: float) -> str:
    return time_text(time_us / 1e6)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "-"


def _short_names(sources: set[str]) -> dict[str, str]:
    """Each file by its name alone, where that tells them apart."""
    short = {source: Path(source).name for source in sources}
    return short if len(set(short.values())) == len(sources) else {source: source for source in sources}


def _device_lines(one: DeviceReport, source: str) -> Iterator[str]:
    time = one.time
    steps = ""
    if time.step_us is not None:
        steps = f", {counted(time.num_steps, 'step')} of {_ms(time.step_us)}" + (" (median)" * (time.num_steps > 1))
    yield f"{one.name}{'' if one.is_gpu else ', no GPU'} ({source}): {_ms(time.window_us)}{steps}"
    whole = time.window_us
    rows: list[tuple[str, float, str]] = [
        ("computing", time.computing_us, ""),
        ("exposed", time.exposed_us, _communication(time)),
        ("copies alone", time.copy_us, "between host and device, with nothing else"),
        (
            "idle" if one.is_gpu else "neither",
            time.idle_us,
            "" if one.is_gpu else "Python between operators, data, waits",
        ),
    ]
    for word, part, more in rows:
        if part > 0 or word in ("computing", "exposed"):
            yield f"  {word:<15}{_ms(part):>10}{_share(part, whole):>6}  {more}".rstrip()
    yield from _idle_lines(one)
    if time.collectives:
        yield from _collective_lines(time.collectives)
    if one.is_gpu:
        yield "  by stream: " + "; ".join(_stream(row.stream, row) for row in time.streams[:_MOST_ROWS])
    yield ""


def _communication(time: DeviceTime) -> str:
    if not time.communication_us:
        return "no communication"
    share = _share(time.hidden_us, time.communication_us)
    return f"of {_ms(time.communication_us)} of communication; {_ms(time.hidden_us)} ({share}) hides behind computing"


def _stream(name: str, row: Any) -> str:
    parts = {"computing": row.computing_us, "communication": row.communication_us, "copies": row.copy_us}
    return f"{one_line(name, 20)} " + ", ".join(f"{word} {_ms(part)}" for word, part in parts.items() if part)


def _idle_lines(one: DeviceReport) -> Iterator[str]:
    idle = one.idle
    if one.is_gpu and one.time.idle_us > 0:
        reasons = (
            ("waits for the host", idle.host_us, "the next kernel has not been launched yet"),
            ("being launched", idle.starting_us, "launched less than 20 us ago"),
            ("held up", idle.held_us, "launched, and waits for an event, a stream or a copy"),
            ("reason unknown", idle.untold_us, "the file has no launch of the next kernel"),
        )
        for word, part, more in reasons:
            if part > 0:
                yield f"    {word:<20}{_ms(part):>10}{_share(part, one.time.idle_us):>6}  {more}"
    if idle.by_annotation and one.time.idle_us > 0:
        word = "idle" if one.is_gpu else "neither"
        parts = [f"{one_line(name, 50) or 'no annotation'} {_ms(part)}" for name, part in idle.by_annotation]
        yield f"    {word} while the program is in: " + "; ".join(parts[:_MOST_PHASES])
    if idle.num_synchronisations:
        calls = counted(idle.num_synchronisations, "synchronisation")
        yield f"    the host itself waits for the device in {calls}, {_ms(idle.synchronising_us)} in all"


def _collective_lines(rows: Iterable[CollectiveRow]) -> Iterator[str]:
    rows = list(rows)
    heads = ("stream", "calls", "input bytes", "largest", "time", "hidden", "exposed")
    yield _table_row("collective", heads)
    for row in rows[:_MOST_ROWS]:
        cells = (
            one_line(row.stream, 12),
            f"{row.num_calls:,}",
            "unknown" if row.size_bytes is None else bytes_text(row.size_bytes),
            "-" if row.largest_bytes is None else bytes_text(row.largest_bytes),
            *map(_ms, (row.time_us, row.hidden_us, row.exposed_us)),
        )
        yield _table_row(one_line(row.collective, _NAME_WIDTH), cells)
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS} more; --json has all"


def _table_row(name: str, cells: Sequence[str]) -> str:
    padded = (cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return "  " + name.ljust(_NAME_WIDTH) + "".join(padded)


def _straggler_lines(found: Stragglers) -> Iterator[str]:
    if found.straggler is None:
        yield f"The report cannot say which rank the others wait for: {found.not_told}."
        return
    most = sorted(found.waited_us.items(), key=lambda item: item[1])
    shown = most if len(most) <= 2 * _MOST_ROWS else [*most[:_MOST_ROWS], *most[-_MOST_ROWS:]]
    waits = ", ".join(f"rank {rank} {_ms(time)}" for rank, time in shown)
    calls, last = found.num_calls, found.came_last[found.straggler]
    yield f"In {counted(calls, 'collective')} the ranks waited for the one that came last: {waits}."
    yield f"Rank {found.straggler} waited least: it came last in {last} of {calls}."


def _perfetto(is_for_perfetto: bool) -> Iterator[str]:
    if is_for_perfetto:
        yield f"Span by span: open {_PERFETTO} in a browser and drop the file there; it stays on your machine."
    else:
        yield f"A trace as torch.profiler writes it can be seen span by span at {_PERFETTO}; a table cannot."
