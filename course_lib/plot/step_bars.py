"""What a device holds, and where its time goes: two bars for each way of training, side by side."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.meter.communication.step_split import StepSplit
from course_lib.meter.memory.balance import LABELS
from course_lib.meter.units import time_text
from course_lib.plot.bars import Bars, draw_memory, memory_words, rows_of
from course_lib.plot.style import LABEL_LOOKS, OKABE_ITO, Look, Picture, key, outlined, style, text_colour

__all__ = ["memory_and_time_bars"]

_LOOKS = {
    "computing": Look(OKABE_ITO["vermillion"], "", "C"),
    "messages": Look(OKABE_ITO["purple"], "||", "M"),
    "waiting": Look("#BBBBBB", "", "W"),
    "undivided": Look(OKABE_ITO["sky blue"], "--", "U"),
}
_LABELLED = 0.05  # of the axis: less has no room for a letter


def memory_and_time_bars(held: Bars, times: Mapping[str, StepSplit]) -> Picture:
    """Stacked bars of bytes by label, and beside each of the seconds of a step, by what the rank did.

    ``times`` has a split for each name of ``held``. Raises ``ValueError`` where a name is in one alone, and for what
    ``memory_bars`` refuses.
    """
    rows = rows_of(held)
    if rows.keys() != times.keys():
        raise ValueError(
            f"bytes are given for {', '.join(rows)}, and times for {', '.join(times) or 'nothing'}; "
            "both need the same names"
        )
    with style():
        figure = Figure(figsize=(8.6, 1.5 + 0.42 * len(rows)), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, sharey=True)
        draw_memory(left, rows, None)
        left.set_title("What a device holds, at most")
        _draw_times(right, [times[name] for name in rows])
        used = {label: LABEL_LOOKS[label] for label in LABELS if any(sizes.get(label) for sizes in rows.values())}
        done = {word: look for word, look in _LOOKS.items() if any(_parts(one)[word] for one in times.values())}
        key(figure, used | done)
    return Picture(figure, f"{memory_words(rows, 'What a device holds, at most', None)} {_words(times)}")


def _draw_times(axes: Axes, splits: list[StepSplit]) -> None:
    end_ms = max([*(1000 * one.step_s for one in splits), 1e-3]) * 1.22
    for row, one in enumerate(splits):
        left = 0.0
        for word, part_s in _parts(one).items():
            if part_s <= 0:
                continue
            look, width = _LOOKS[word], 1000 * part_s
            axes.add_patch(Rectangle((left, row - 0.33), width, 0.66, **outlined(look)))
            if width > _LABELLED * end_ms:
                _letter(axes, left + width / 2, row, look)
            left += width
        axes.text(left + 0.01 * end_ms, row, time_text(one.step_s), va="center", ha="left")
    axes.set_title("Where a step's time goes")
    axes.set_xlim(0, end_ms)
    axes.set_xlabel("time (ms), mean of the ranks")
    axes.grid(visible=False, axis="y")


def _letter(axes: Axes, x: float, row: int, look: Look) -> None:
    box = {"boxstyle": "round,pad=0.12", "facecolor": look.colour, "edgecolor": "none"}
    axes.text(x, row, look.letter, ha="center", va="center", color=text_colour(look.colour), weight="bold", bbox=box)


def _parts(one: StepSplit) -> dict[str, float]:
    parts_s = (one.computing_s, one.messages_s, one.waiting_s, one.undivided_s)
    return dict(zip(_LOOKS, parts_s, strict=True))


def _words(times: Mapping[str, StepSplit]) -> str:
    bars = [
        f"{name}: {time_text(one.step_s)} ("
        + ", ".join(f"{word} {time_text(part_s)}" for word, part_s in _parts(one).items() if part_s > 0)
        + ")"
        for name, one in times.items()
    ]
    return f"Where a step's time goes, mean of the ranks, stacked bars. {'; '.join(bars)}."
