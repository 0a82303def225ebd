"""A few layouts beside each other: a step's time by part, and the fullest GPU's memory by part with its limit.

A part that is small in all of them is drawn with the others of its kind, as "the rest"; what it was stands in the
words. Bars of time end with the seconds, and of memory with the gigabytes; the dashed line is how far a
GPU may be filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.plan.output.report import memory_word, time_word
from course_lib.plan.search.listing import Listing, Option, usable_bytes
from course_lib.plot.boards.plan_looks import MEMORY_LOOKS, TIME_LOOKS
from course_lib.plot.style import Look, Picture, outlined, style, text_colour

__all__ = ["plan_picture"]

_GB = 1e9
_SMALL = 0.008  # of the longest bar: parts below it in every layout are drawn together
_HIGH, _ROOM = 0.62, 0.03  # of a row; and a letter's room, as a share of the axis
_REST = Look("#BBBBBB", "", "")


@checked
def plan_picture(listing: Listing, *, most: int = 6, limit_bytes: float | None = None) -> Picture:
    """The fastest ``most`` layouts of a listing; ``limit_bytes``: of memory, below what may be filled of it.

    ValueError where nothing runs.
    """
    at_least(1, most=most)
    options = listing.options[:most]
    if not options:
        raise ValueError("no layout runs, so there is nothing to draw; the listing says what to change")
    limit = usable_bytes(listing.cluster, limit_bytes)
    names = [str(option.layout) for option in options]
    times = [asdict(option.step) for option in options]
    sizes = [{name: size / _GB for name, size in asdict(option.memory).items()} for option in options]
    with style():
        figure = Figure(figsize=(11.0, 2.1 + 0.44 * len(options)), layout="constrained")
        FigureCanvasAgg(figure)
        (left, right), keys = figure.subplots(
            2, 2, width_ratios=(1.15, 1.0), height_ratios=(0.6 + 0.44 * len(options), 0.72)
        )
        job, cluster = listing.job, listing.cluster
        figure.suptitle(
            f"{job.model.name}, {job.batch:,} sequences of {job.seq:,} tokens a step, {cluster.gpus:,} GPUs of "
            f"{cluster.name}",
            x=0.01, ha="left", weight="bold", size=12,
        )  # fmt: skip
        _key(keys[0], _side(left, times, TIME_LOOKS, "time of a step (s)"), TIME_LOOKS, time_word)
        shown = _side(right, sizes, MEMORY_LOOKS, "memory of the fullest GPU (GB)", limit / _GB)
        _key(keys[1], shown, MEMORY_LOOKS, memory_word)
        left.set_yticks(range(len(names)), labels=names)
        right.set_yticks([])
    return Picture(figure, _words(listing, options, limit))


def _side(
    axes: Axes,
    rows: Sequence[Mapping[str, float]],
    looks: Mapping[str, Look],
    label: str,
    limit: float | None = None,
) -> list[str]:
    """Stacked bars, a row for each layout; the parts that have a look of their own, and "" for the rest."""
    longest = max(sum(row.values()) for row in rows)
    shown = [name for name in rows[0] if max(row[name] for row in rows) > _SMALL * longest]
    end = max(longest, limit or 0) * 1.13
    if limit is not None:
        axes.axvline(limit, color="black", linestyle="--", linewidth=1.4)
        axes.annotate(f"limit {limit:.3g} ", (limit, -0.57), ha="right", va="top", fontsize=9)
    for at, row in enumerate(rows):
        place = 0.0
        for name in shown:
            place = _part(axes, place, at, row[name], looks.get(name, _REST), end)
        place = _part(axes, place, at, sum(row.values()) - sum(row[name] for name in shown), _REST, end)
        ground = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        axes.text(place + 0.012 * end, at, f"{place:.3g}", va="center", ha="left", size=9, weight="bold", bbox=ground)
    axes.set_xlim(0, end)
    axes.set_ylim(len(rows) - 0.45, -0.6)
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")
    return shown + ([""] if len(shown) < sum(any(row[name] for row in rows) for name in rows[0]) else [])


def _key(axes: Axes, shown: Sequence[str], looks: Mapping[str, Look], word: Callable[[str], str]) -> None:
    """Colour, hatch and letter of each part, in axes of their own below the bars."""
    axes.set_axis_off()
    patches = []
    for name in shown:
        look = looks.get(name, _REST)
        said = word(name) if name else "the rest, all small"
        patches.append(Patch(**outlined(look), label=f"{look.letter}  {said}"))
    axes.legend(handles=patches, loc="center", ncols=3 if len(patches) > 6 else 2, handlelength=1.8)


def _part(axes: Axes, place: float, row: int, size: float, look: Look, end: float) -> float:
    """Draw one part of a bar; where the next one begins."""
    if size <= 0:
        return place
    axes.add_patch(Rectangle((place, row - _HIGH / 2), size, _HIGH, **outlined(look)))
    if look.letter and size > _ROOM * end:
        box = {"boxstyle": "round,pad=0.14", "facecolor": look.colour, "edgecolor": "none"}
        axes.text(
            place + size / 2, row, look.letter, color=text_colour(look.colour), ha="center", va="center",
            weight="bold", size=9, bbox=box,
        )  # fmt: skip
    return place + size


def _words(listing: Listing, options: Sequence[Option], limit_bytes: float) -> str:
    said = []
    for option in options:
        parts = sorted(asdict(option.step).items(), key=lambda part: -part[1])[:3]
        time = ", ".join(f"{time_word(name)} {part:.3g}" for name, part in parts if part)
        memory = sorted(asdict(option.memory).items(), key=lambda part: -part[1])[:2]
        held = ", ".join(f"{memory_word(name)} {size / _GB:.3g}" for name, size in memory)
        said.append(
            f"{option.layout}: {option.step_s:.3g} s (most of it {time}) and {option.memory.total_bytes / _GB:.3g} GB "
            f"(most of it {held})"
        )
    return (
        f"Layouts of {listing.job.model.name} on {listing.cluster.gpus} GPUs, stacked bars of a step's time and of the "
        f"fullest GPU's memory. {'; '.join(said)}. A GPU may be filled to {limit_bytes / _GB:.3g} GB."
    )
