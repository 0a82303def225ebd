"""What a rank sends, call after call: a row for each run, a box for each call, as wide as its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from matplotlib.patches import Rectangle

from course_lib.meter.communication.call import Call
from course_lib.meter.units import bytes_text
from course_lib.plot.bars import byte_ticks
from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, key, outlined, text_colour

__all__ = ["sent_bars"]

_LOOKS = {
    "all_reduce": Look(OKABE_ITO["vermillion"], "xx", "R"),
    "all_gather": Look(OKABE_ITO["green"], "..", "G"),
    "reduce_scatter": Look(OKABE_ITO["orange"], "//", "S"),
    "all_to_all": Look(OKABE_ITO["sky blue"], "\\\\", "A"),
    "broadcast": Look(OKABE_ITO["yellow"], "--", "B"),
}
_OTHER = Look(OKABE_ITO["purple"], "||", "m")
_MOST_SAID = 16  # more calls in a row are no text to listen to


def sent_bars(runs: Mapping[str, Sequence[Call]], *, title: str = "") -> Picture:
    """Rows from the top: the calls of one rank in their order, each as wide as the bytes that the rank sends in it.

    A call that sends nothing has no box. ``ValueError`` where no run has a call that sends.
    """
    sizes = {name: [(call.operation, sum(call.sent_bytes.values())) for call in calls] for name, calls in runs.items()}
    sizes = {name: [one for one in row if one[1]] for name, row in sizes.items()}
    totals = {name: sum(size for _, size in row) for name, row in sizes.items()}
    if not any(totals.values()):
        raise ValueError("no call of these runs sends anything; there is nothing to draw")
    end = 1.16 * max(totals.values())
    used = {operation: _look(operation) for row in sizes.values() for operation, _ in row}
    with canvas(height=1.25 + 0.55 * len(sizes), title=title) as (figure, axes):
        for number, (name, row) in enumerate(sizes.items()):
            left = 0
            for operation, size in row:
                look = used[operation]
                axes.add_patch(Rectangle((left, number - 0.3), size, 0.6, **outlined(look)))
                if size > 0.022 * end:
                    paper = {"boxstyle": "round,pad=0.12", "facecolor": look.colour, "edgecolor": "none"}
                    ink = {"color": text_colour(look.colour), "fontsize": 8, "bbox": paper}
                    axes.text(left + size / 2, number, look.letter, ha="center", va="center", **ink)
                left += size
            axes.text(left + 0.008 * end, number, bytes_text(totals[name]), va="center")
        unit, ticks = byte_ticks(end)
        axes.set_xticks([place for place, _ in ticks], labels=[word for _, word in ticks])
        axes.set_xlim(0, end)
        axes.set_xlabel(f"sent by the rank ({unit}), from the first call to the last")
        axes.set_yticks(range(len(sizes)), labels=list(sizes))
        axes.set_ylim(len(sizes) - 0.45, -0.55)
        axes.grid(visible=False, axis="y")
        key(figure, used)
    return Picture(figure, _words(sizes, totals, title))


def _look(operation: str) -> Look:
    return _LOOKS.get(operation, _OTHER)


def _words(sizes: Mapping[str, list[tuple[str, int]]], totals: Mapping[str, int], title: str) -> str:
    rows = []
    for name, row in sizes.items():
        rows.append(f"{name}: {bytes_text(totals[name])} in all, in this order: {', '.join(_in_order(row))}")
    return f"{title or 'What a rank sends'}. {'; '.join(rows)}."


def _in_order(row: Sequence[tuple[str, int]]) -> list[str]:
    """Equal neighbours are said once; where too many are left, neighbours of one operation and any sizes."""
    equal = [(operation, size, len(list(group))) for (operation, size), group in groupby(row)]
    if len(equal) <= _MOST_SAID:
        return [f"{operation} {bytes_text(size)}" + f" {n} times" * (n > 1) for operation, size, n in equal]
    alike = [(operation, [size for _, size in group]) for operation, group in groupby(row, key=lambda one: one[0])]
    counted = ((operation, f"{len(of)} calls" if len(of) > 1 else "one call", sum(of)) for operation, of in alike)
    return [f"{operation}, {calls} of {bytes_text(size)}" for operation, calls, size in counted]
