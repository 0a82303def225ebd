"""Who did what when: a row for each rank, a box for each span."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes

from course_lib.meter.clocks.timeline import Span, Timeline
from course_lib.meter.units import time_text
from course_lib.plot.style import Look, Picture, canvas, key, look_of_span, outlined, text_colour

__all__ = ["gantt", "gantt_beside"]

_COMMUNICATION = ("send", "recv", "collective")
_ONE_BAND = ((0.0, 0.8),)
_TWO_BANDS = ((-0.14, 0.52), (0.28, 0.24))  # computing above, communicating below
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def gantt(
    timeline: Timeline | Iterable[Span],
    *,
    title: str = "",
    alt: str | None = None,
    names: Mapping[int, str] | None = None,
) -> Picture:
    """Spans as boxes on a common time axis, a row for each rank; a span inside another lies on top of it.

    Where a rank communicates and computes at once, the rows are split: communication runs in a thinner bar below.
    Boxes named data, forward, backward and step have a look of their own, others that of their kind. ``names``
    gives rows another name than "rank 0". The alt text is made from the spans unless given; it holds times.
    """
    joined = timeline if isinstance(timeline, Timeline) else Timeline.join([timeline])
    spans = joined.spans
    if not spans:
        raise ValueError("the timeline holds no span; record one before drawing it")
    wall_s, zero = joined.wall_s, spans[0].start_s
    scale, unit = next((pair for pair in _SCALES if wall_s >= pair[0]), _SCALES[-1])
    ranks, bands = joined.ranks, _bands(spans)
    looks: dict[str, Look] = {}
    with canvas(height=1.3 + 0.25 * (1 + len(bands)) * len(ranks), title=title) as (figure, axes):
        for depth, span, room in _laid_out(spans, bands):
            word, look = look_of_span(span.name, span.kind)
            looks[word] = look
            start, width = (span.start_s - zero) / scale, span.time_s / scale
            middle, height = bands[_band(span, bands)]
            height *= max(1 - 0.275 * depth, 0.25)
            row = ranks.index(span.rank) + middle
            _box(axes, row, height, depth, start, width, look)
            seen = tuple((end - zero) / scale for end in room)
            _label(axes, row, depth, seen, span.name, look, wall_s / scale)
        axes.set_yticks(range(len(ranks)), labels=[_row_name(rank, names) for rank in ranks])
        axes.set_ylim(len(ranks) - 0.45, -0.55)
        axes.set_xlim(0, max(wall_s, 1e-9) / scale)
        axes.set_xlabel(f"time ({unit})")
        axes.grid(visible=False, axis="y")
        key(figure, looks)
    return Picture(figure, alt if alt is not None else _words(joined, title, names))


def gantt_beside(
    timelines: Mapping[str, Timeline | Iterable[Span]], *, title: str = "", alt: str | None = None, row: str = "rank"
) -> Picture:
    """Several runs below each other, each from its own beginning: rows "rank 0, yours". One alone is as by ``gantt``.

    ``row`` is another word for what a row is, such as "device". A run without spans has no row.

    Raises ``ValueError`` where no run has a span.
    """
    places: dict[tuple[str, int], int] = {}
    moved = []
    for name, given in timelines.items():
        spans = (given if isinstance(given, Timeline) else Timeline.join([given])).spans
        for span in sorted(spans, key=lambda span: span.rank):
            place, zero = places.setdefault((name, span.rank), len(places)), spans[0].start_s
            moved.append(replace(span, rank=place, start_s=span.start_s - zero, end_s=span.end_s - zero))
    tail = {name: f", {name}" if len(timelines) > 1 else "" for name in timelines}
    names = {place: f"{row} {rank}{tail[name]}" for (name, rank), place in places.items()}
    return gantt(Timeline.join([moved]), title=title, alt=alt, names=names)


def _bands(spans: Iterable[Span]) -> tuple[tuple[float, float], ...]:
    """Middle and height of the bands in a row: one, or two where a rank communicates and computes at once."""
    computing_until: dict[int, float] = {}
    talking_until: dict[int, float] = {}
    for span in spans:  # by their start
        talks = span.kind in _COMMUNICATION
        mine, other = (talking_until, computing_until) if talks else (computing_until, talking_until)
        if (talks or span.kind == "compute") and other.get(span.rank, span.start_s) > span.start_s:
            return _TWO_BANDS
        if talks or span.kind == "compute":
            mine[span.rank] = max(span.end_s, mine.get(span.rank, span.end_s))
    return _ONE_BAND


def _band(span: Span, bands: tuple[tuple[float, float], ...]) -> int:
    return 1 if len(bands) > 1 and span.kind in _COMMUNICATION else 0


def _depths(spans: Iterable[Span], bands: tuple[tuple[float, float], ...]) -> list[int]:
    """How deep each span is drawn: the first depth that no span open in its band has. ``spans`` by their start."""
    depths, open_now = [], dict[tuple[int, int], dict[int, float]]()
    for span in spans:
        place = (span.rank, _band(span, bands))
        taken = {depth: end for depth, end in open_now.get(place, {}).items() if end > span.start_s}
        depth = next(depth for depth in range(len(taken) + 1) if depth not in taken)
        open_now[place] = {**taken, depth: span.end_s}
        depths.append(depth)
    return depths


def _laid_out(
    spans: Sequence[Span], bands: tuple[tuple[float, float], ...]
) -> Iterator[tuple[int, Span, tuple[float, float]]]:
    """Each span with its depth, and the longest stretch of it that nothing deeper lies on: there its label is seen."""
    depths = _depths(spans, bands)
    placed: dict[tuple[int, int], list[tuple[int, Span]]] = {}
    for depth, span in zip(depths, spans, strict=True):
        placed.setdefault((span.rank, _band(span, bands)), []).append((depth, span))
    for depth, span in zip(depths, spans, strict=True):
        others = placed[span.rank, _band(span, bands)]
        on_top = [(one.start_s, one.end_s) for deep, one in others if deep > depth]
        yield depth, span, _longest_free(span.start_s, span.end_s, on_top)


def _longest_free(start: float, end: float, covers: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The longest stretch from ``start`` to ``end`` outside all ``covers``; empty where there is none."""
    longest, free_from = (start, start), start
    for cover_start, cover_end in [*sorted(covers), (end, end)]:
        longest = max(longest, (free_from, min(cover_start, end)), key=lambda stretch: stretch[1] - stretch[0])
        free_from = max(free_from, cover_end)
    return longest


def _box(axes: Axes, row: float, height: float, depth: int, start: float, width: float, look: Look) -> None:
    axes.broken_barh([(start, width)], (row - height / 2, height), **outlined(look), zorder=2 + depth)


def _label(axes: Axes, row: float, depth: int, room: tuple[float, ...], name: str, look: Look, wall: float) -> None:
    """The name of a box where it can be seen, its letter where the name has no room, else nothing."""
    start, end = room
    share = (end - start) / wall if wall else 0
    text = name if share > 0.013 * (len(name) + 1) else look.letter if share > 0.016 else ""
    if text:
        box = {"boxstyle": "round,pad=0.12", "facecolor": look.colour, "edgecolor": "none"}
        ink = text_colour(look.colour)
        axes.text(
            (start + end) / 2,
            row,
            text,
            color=ink,
            ha="center",
            va="center",
            fontsize=9,
            bbox=box,
            zorder=3 + depth,
        )


def _row_name(rank: int, names: Mapping[int, str] | None) -> str:
    return (names or {}).get(rank, f"rank {rank}")


def _words(timeline: Timeline, title: str, names: Mapping[int, str] | None) -> str:
    wall = timeline.wall_s
    parts = []
    for rank in timeline.ranks:
        seen = dict.fromkeys(span.name for span in timeline.spans if span.rank == rank)
        shares = {name: timeline.time_s(name, rank=rank) / wall if wall else 0.0 for name in seen}
        top = sorted(shares.items(), key=lambda item: -item[1])[:6]
        parts.append(f"{_row_name(rank, names)}: " + ", ".join(f"{name} {share:.0%}" for name, share in top))
    return f"{title or 'Timeline'}, {time_text(wall)} in all. Shares of the time: {'; '.join(parts)}."
