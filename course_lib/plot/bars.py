"""Where the memory goes, as stacked bars: one bar for each moment, setting or rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.meter.memory.balance import LABELS, Balance, check_label
from course_lib.meter.units import bytes_text
from course_lib.plot.style import LABEL_LOOKS, Picture, canvas, key, outlined, text_colour

__all__ = ["Bars", "byte_axis", "byte_ticks", "draw_memory", "memory_bars", "memory_words", "rows_of"]

Bars = Mapping[str, Mapping[str, int] | Balance] | Sequence[Balance] | Balance


def memory_bars(bars: Bars, *, title: str = "", limit_bytes: int | None = None, alt: str | None = None) -> Picture:
    """Stacked bars of bytes by label.

    ``bars`` maps the name of each bar to a balance or to bytes by label; balances alone are named by their
    moment. ``limit_bytes`` draws a line, such as the memory of a device. The alt text is made from the
    numbers unless given. No bars, an unknown label and a negative size are a ``ValueError``.
    """
    rows = rows_of(bars)
    used = [label for label in LABELS if any(sizes.get(label) for sizes in rows.values())]
    with canvas(height=1.1 + 0.5 * len(rows), title=title) as (figure, axes):
        draw_memory(axes, rows, limit_bytes)
        key(figure, {label: LABEL_LOOKS[label] for label in used})
    return Picture(figure, alt if alt is not None else memory_words(rows, title, limit_bytes))


def draw_memory(axes: Axes, rows: Mapping[str, Mapping[str, int]], limit_bytes: int | None) -> None:
    """The bars of ``rows``, bytes by label, from the top; with a line at a limit where one is given."""
    totals = {name: sum(sizes.values()) for name, sizes in rows.items()}
    end = max([*totals.values(), limit_bytes or 0, 1]) * 1.14
    for row, (name, sizes) in enumerate(rows.items()):
        _stack(axes, row, sizes, end)
        axes.text(totals[name] + 0.008 * end, row, bytes_text(totals[name]), va="center", ha="left")
    axes.set_yticks(range(len(rows)), labels=list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    if limit_bytes is not None:
        axes.axvline(limit_bytes, color="black", linestyle="--", linewidth=1.4)
        text = f"limit {bytes_text(limit_bytes)} "
        axes.annotate(text, (limit_bytes, -0.58), ha="right", va="top", fontsize=9)
    byte_axis(axes, "x", end)


def byte_axis(axes: Axes, which: str, end_bytes: float) -> None:
    """Ticks at round numbers of the unit that fits, from 0 to ``end_bytes``; the axis label names it."""
    unit, ticks = byte_ticks(end_bytes)
    places, names = [place for place, _ in ticks], [name for _, name in ticks]
    if which == "x":
        axes.set_xticks(places, labels=names)
        axes.set_xlim(0, end_bytes)
        axes.set_xlabel(f"memory ({unit})")
    else:
        axes.set_yticks(places, labels=names)
        axes.set_ylim(0, end_bytes)
        axes.set_ylabel(f"memory ({unit})")


def byte_ticks(end_bytes: float) -> tuple[str, list[tuple[float, str]]]:
    """The unit that fits, and round numbers of it up to ``end_bytes``: each as bytes and as text."""
    power = max(0, min(5, int(math.log(max(end_bytes, 1), 1024))))
    unit, scale = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[power], 1024**power
    step = 10 ** math.floor(math.log10(max(end_bytes / scale, 1) / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if end_bytes / scale / (step * factor) <= 8)
    ticks = [step * index for index in range(math.floor(end_bytes / scale / step) + 1)]
    return unit, [(tick * scale, f"{tick:g}") for tick in ticks]


def rows_of(bars: Bars) -> dict[str, dict[str, int]]:
    """Names and bytes by label, checked."""
    if isinstance(bars, Balance):
        bars = [bars]
    if not isinstance(bars, Mapping):
        bars = {balance.when: balance for balance in bars}
    if not bars:
        raise ValueError("there are no bars to draw; give at least one")
    rows = {}
    for name, sizes in bars.items():
        rows[name] = dict(sizes.by_label if isinstance(sizes, Balance) else sizes)
        for label, size in rows[name].items():
            if size < 0:
                raise ValueError(f"{name!r} holds {size} bytes of {check_label(label)}; bytes are 0 or more")
            check_label(label)
    return rows


def _stack(axes: Axes, row: int, sizes: Mapping[str, int], end: float) -> None:
    left = 0
    for label in LABELS:
        size, look = sizes.get(label, 0), LABEL_LOOKS[label]
        if not size:
            continue
        axes.add_patch(Rectangle((left, row - 0.33), size, 0.66, **outlined(look)))
        if size > 0.025 * end:
            box = {"boxstyle": "round,pad=0.16", "facecolor": look.colour, "edgecolor": "none"}
            ink = text_colour(look.colour)
            axes.text(
                left + size / 2,
                row,
                look.letter,
                color=ink,
                ha="center",
                va="center",
                weight="bold",
                bbox=box,
            )
        left += size


def memory_words(rows: Mapping[str, Mapping[str, int]], title: str, limit_bytes: int | None) -> str:
    parts = []
    for name, sizes in rows.items():
        items = ", ".join(f"{label} {bytes_text(sizes[label])}" for label in LABELS if sizes.get(label))
        parts.append(f"{name}: {bytes_text(sum(sizes.values()))}" + (f" ({items})" if items else ""))
    limit = f" The limit is {bytes_text(limit_bytes)}." if limit_bytes is not None else ""
    return f"{title or 'Memory'}, stacked bars. {'; '.join(parts)}.{limit}"
