"""The one picture of a report: the step beside its budget and the best ones known, and memory beside its limit."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_lib.capstone.reports.result_file import ResultRecord
from course_lib.meter import bytes_text
from course_lib.plot import OKABE_ITO, Picture
from course_lib.plot.bars import byte_axis
from course_lib.plot.style import LABEL_LOOKS, Look, key, outlined, style, text_colour

__all__ = ["picture_of"]

_STEPS = (
    ("yours", "step_s", OKABE_ITO["blue"], ""),
    ("planner's promise", "planner_s", OKABE_ITO["orange"], "//"),
    ("best known", "best_s", OKABE_ITO["green"], "\\\\"),
)
_DASHES: dict[str, Any] = {"color": "black", "linewidth": 1.4, "linestyle": "--", "zorder": 5}
_ON_TOP: dict[str, Any] = {"zorder": 6, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.0}}


def picture_of(record: ResultRecord) -> Picture:
    """Two rows of bars; its text says the same."""
    with style():
        figure = Figure(figsize=(7.2, 4.7), layout="constrained")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, height_ratios=(3, 2))
        _time(above, record)
        _memory(below, record)
        seen_bytes = 0.01 * (record.memory_bytes or record.peak_bytes or 0.0)
        parts = [name for name, size in record.parts.items() if size > seen_bytes]
        if used := {name: LABEL_LOOKS.get(name, LABEL_LOOKS["other"]) for name in parts}:
            key(figure, used)
        title = f"Capstone, level {record.level}, seed {record.seed}: {record.points:.0f} of 100 points"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return Picture(figure, alt_of(record))


def _time(axes: Axes, record: ResultRecord) -> None:
    known = [(name, getattr(record, field), colour, hatch) for name, field, colour, hatch in _STEPS]
    end = max([time_s or 0.0 for _, time_s, *_ in known] + [record.budget_s or 0.0]) or 1.0
    for place, (_, time_s, colour, hatch) in enumerate(known):
        axes.barh(place, (time_s or 0.0) * 1e3, height=0.7, **outlined(Look(colour, hatch, "")))
        said = "no time" if time_s is None else f"{time_s * 1e3:.0f} ms"
        axes.text((time_s or 0.0) * 1e3 + end * 12, place, said, va="center", fontsize=9, **_ON_TOP)
    if record.budget_s:
        axes.axvline(record.budget_s * 1e3, **_DASHES)
        said = f"budget {record.budget_s * 1e3:.0f} ms"
        _beside(axes, record.budget_s * 1e3, -0.62, said)
    axes.set_yticks(range(len(known)), [name for name, *_ in known])
    axes.set(xlim=(0, end * 1.2e3), ylim=(2.5, -0.95), xlabel="step of computing and messages, ms")
    axes.grid(axis="y", visible=False)


def _memory(axes: Axes, record: ResultRecord) -> None:
    left, end = 0.0, max(record.peak_bytes or 0.0, record.memory_bytes or 0.0) or 1.0
    for name, size in record.parts.items():
        look = LABEL_LOOKS.get(name, LABEL_LOOKS["other"])
        axes.barh(0, size, left=left, height=0.6, **outlined(look))
        if size > 0.04 * end:  # the letter of the key
            ground = {"facecolor": look.colour, "edgecolor": "none", "pad": 1.0} if look.hatch else None
            words: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 9,
                "color": text_colour(look.colour),
            }
            axes.text(left + size / 2, 0, look.letter, bbox=ground, **words)
        left += size
    if record.memory_bytes:
        axes.axvline(record.memory_bytes, **_DASHES)
        said = f"limit {bytes_text(record.memory_bytes)}"
        _beside(axes, record.memory_bytes, -0.5, said)
    said = "no peak" if record.peak_bytes is None else bytes_text(record.peak_bytes)
    axes.text(left + end * 0.012, 0, said, va="center", fontsize=9, **_ON_TOP)
    axes.set_yticks([0], ["fullest rank"])
    axes.set(xlim=(0, end * 1.2), ylim=(0.45, -0.85))
    byte_axis(axes, "x", end * 1.2)
    axes.grid(axis="y", visible=False)


def _beside(axes: Axes, x: float, y: float, text: str) -> None:
    """A text that ends before a line."""
    look: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 9}
    axes.annotate(text, (x, y), xytext=(-4, 0), textcoords="offset points", **look)


def alt_of(record: ResultRecord) -> str:
    """The picture in words."""
    said = []
    for name, field, *_ in _STEPS:
        time_s = getattr(record, field)
        said.append(f"{name} {'without a time' if time_s is None else f'{time_s * 1e3:.0f} ms'}")
    steps = "Bars of a step: " + ", ".join(said)
    if record.budget_s:
        steps += f"; the budget is {record.budget_s * 1e3:.0f} ms"
    parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in record.parts.items() if size)
    memory = "Memory of the fullest rank" + (f": {parts}" if parts else " was not measured")
    if record.memory_bytes:
        memory += f"; the limit is {bytes_text(record.memory_bytes)}"
    return f"{steps}. {memory}."
