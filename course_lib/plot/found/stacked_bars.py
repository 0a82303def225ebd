"""Quantities by part, as stacked bars: any parts, in any unit, with a limit where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.base.checks import at_most, not_negative
from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, key, outlined, text_colour

__all__ = ["stacked_bars"]

_COLOURS = ("blue", "orange", "green", "purple", "vermillion", "sky blue")
_HATCHES = ("", "//", "\\\\", "||", "..", "--")
_END = 1.16  # of the axis, beside the longest bar


def stacked_bars(
    bars: Mapping[str, Mapping[str, float]],
    *,
    unit: str,
    what: str,
    limit: tuple[str, float] | None = None,
    decimals: int = 1,
    title: str = "",
) -> Picture:
    """A row for each name, its parts side by side from 0, and their sum behind it.

    ``unit`` and ``what`` name the axis: "GB" and "memory of a device". ``limit`` is a word and where its line stands.
    ``decimals`` are those of the sums. ``ValueError`` for no bar, a part below 0, and more than six parts.
    """
    if not bars:
        raise ValueError("there are no bars to draw; give at least one")
    parts = list(dict.fromkeys(part for row in bars.values() for part in row))
    at_most(len(_COLOURS), parts=len(parts))
    for row in bars.values():
        not_negative(**row)
    letters = _letters(parts)
    looks = {
        part: Look(OKABE_ITO[colour], hatch, letters[part])
        for part, colour, hatch in zip(parts, _COLOURS, _HATCHES, strict=False)
    }
    sums = {name: sum(row.values()) for name, row in bars.items()}
    end = _END * max([*sums.values(), limit[1] if limit else 0.0, 1e-12])
    with canvas(height=1.3 + 0.42 * len(bars), title=title) as (figure, axes):
        for number, (name, row) in enumerate(bars.items()):
            left = 0.0
            for part, size in row.items():
                if size > 0:
                    axes.add_patch(Rectangle((left, number - 0.32), size, 0.64, **outlined(looks[part])))
                    _letter(axes, left, number, size, end, looks[part])
                left += size
            paper = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            text = f"{sums[name]:.{decimals}f} {unit}"
            axes.text(left + 0.008 * end, number, text, va="center", bbox=paper, zorder=4)
        if limit:
            _line(axes, limit, f"{limit[0]} {limit[1]:.{decimals}f} {unit}", (end, len(bars) - 0.38))
        axes.set_yticks(range(len(bars)), labels=list(bars))
        axes.set_ylim(len(bars) - (0.1 if limit else 0.5), -0.55)
        axes.set_xlim(0, end)
        axes.set_xlabel(f"{what} ({unit})")
        axes.grid(visible=False, axis="y")
        key(figure, looks)
    return Picture(figure, _words(bars, sums, (unit, decimals), limit, title or what))


def _line(axes: Axes, limit: tuple[str, float], text: str, corner: tuple[float, float]) -> None:
    """The limit as a dashed line, with its words beside it below the last bar."""
    end, below = corner
    axes.axvline(limit[1], color="black", linestyle="--", linewidth=1.4)
    left_of_it = limit[1] > 0.6 * end
    place = limit[1] + (-0.008 if left_of_it else 0.008) * end
    axes.text(place, below, text, ha="right" if left_of_it else "left", va="center", fontsize=9)


def _letters(parts: Sequence[str]) -> dict[str, str]:
    """A letter for each part: the first of its letters that no part before it has."""
    taken: dict[str, str] = {}
    for part in parts:
        free = (one.upper() for one in part if one.isalpha() and one.upper() not in taken.values())
        taken[part] = next(free, "?")
    return taken


def _letter(axes: Axes, left: float, row: int, size: float, end: float, look: Look) -> None:
    """The part's letter, where the part is wide enough for it."""
    if size > 0.025 * end:
        paper = {"boxstyle": "round,pad=0.14", "facecolor": look.colour, "edgecolor": "none"}
        ink = {"color": text_colour(look.colour), "fontsize": 9, "weight": "bold", "bbox": paper}
        axes.text(left + size / 2, row, look.letter, ha="center", va="center", **ink)


def _words(
    bars: Mapping[str, Mapping[str, float]],
    sums: Mapping[str, float],
    how: tuple[str, int],
    limit: tuple[str, float] | None,
    title: str,
) -> str:
    unit, decimals = how
    rows = []
    for name, row in bars.items():
        parts = ", ".join(f"{part} {size:.{decimals}f}" for part, size in row.items() if size)
        rows.append(f"{name}: {sums[name]:.{decimals}f} {unit} ({parts})")
    line = f" A line stands at {limit[1]:.{decimals}f} {unit}: {limit[0].rstrip(':')}." if limit else ""
    return f"{title}, stacked bars. {'; '.join(rows)}.{line}"
