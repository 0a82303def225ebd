"""A data-parallel step and its buckets: above, what overlaps with what; below, the step's time by size of bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from course_lib.cost import StepTime
from course_lib.meter.units import bytes_text, time_text
from course_lib.plot.style import OKABE_ITO, Picture, look_of_span, style, text_colour

__all__ = ["BucketBoard"]

_COMPUTING, _SENDING = 1.0, 0.0  # rows


class BucketBoard:
    """Drawn again and again by a widget: axes and labels are settled once, only boxes and points are redrawn.

    ``curve`` maps a size of bucket in bytes to the predicted seconds of a step.
    """

    def __init__(self, sizes_bytes: Sequence[int]) -> None:
        self._sizes = list(sizes_bytes)
        with style():
            self._figure = Figure(figsize=(8.0, 3.9))
            FigureCanvasAgg(self._figure)
            self._spans, self._curve = self._figure.subplots(2, 1, height_ratios=(1, 1.5))
        self._figure.subplots_adjust(left=0.115, right=0.98, top=0.93, bottom=0.13, hspace=0.58)
        self._spans.set_yticks([_COMPUTING, _SENDING], labels=["computing", "sending"])
        self._spans.set_ylim(-0.5, 1.5)
        self._spans.grid(visible=False, axis="y")
        for axis in (self._spans.xaxis, self._curve.yaxis):
            axis.set_major_locator(MaxNLocator(4))  # each tick costs a widget time
        self._curve.set_xscale("log", base=2)
        ticks = self._sizes[::2]
        self._curve.set_xticks(ticks, labels=[bytes_text(size) for size in ticks])
        self._curve.minorticks_off()
        self._curve.set_xlabel("size of a bucket")
        self._curve.set_ylabel("step (ms)")

    def draw(
        self, step: StepTime, size_bytes: int, curve: Mapping[int, float], measured: Mapping[int, float]
    ) -> Picture:
        """The step with buckets of ``size_bytes``, the predicted curve, and what was measured; seconds by size."""
        for axes in (self._spans, self._curve):
            for artist in [*axes.collections, *axes.patches, *axes.texts, *axes.lines]:
                artist.remove()
        with style():
            self._draw_spans(step)
            self._draw_curve(size_bytes, curve, measured)
        return Picture(self._figure, _words(step, size_bytes, measured))

    def _draw_spans(self, step: StepTime) -> None:
        end_s = step.forward_s + step.backward_s + step.exposed_s
        self._spans.set_xlim(0, end_s * 1e3 * 1.02)
        self._spans.set_xlabel("time in the step (ms)", labelpad=1)
        self._spans.set_title(f"One step, predicted: {time_text(end_s)}")
        self._box("forward", "compute", _COMPUTING, 0.0, step.forward_s, end_s)
        self._box("backward", "compute", _COMPUTING, step.forward_s, step.backward_s, end_s)
        for number, bucket in enumerate(step.buckets, 1):
            start_s = step.forward_s + bucket.start_s
            text = f"{number}"
            self._box(text, "collective", _SENDING, start_s, bucket.end_s - bucket.start_s, end_s)
        if step.exposed_s > 0:
            left = (step.forward_s + step.backward_s) * 1e3
            self._spans.axvspan(left, end_s * 1e3, color="#DDDDDD", zorder=0)
            self._text(left + step.exposed_s * 500, _COMPUTING, "waiting", step.exposed_s / end_s)

    def _box(self, name: str, kind: str, row: float, start_s: float, time_s: float, end_s: float) -> None:
        _, look = look_of_span(name, kind)
        self._spans.broken_barh(
            [(start_s * 1e3, time_s * 1e3)],
            (row - 0.36, 0.72),
            facecolor=look.colour,
            edgecolor="white",
            hatch=look.hatch,
            linewidth=0.5,
        )
        self._text((start_s + time_s / 2) * 1e3, row, name, time_s / end_s, look.colour)

    def _text(self, x: float, row: float, text: str, share: float, ground: str = "#DDDDDD") -> None:
        if share < 0.012 * (len(text) + 1):
            return
        box = {"boxstyle": "round,pad=0.12", "facecolor": ground, "edgecolor": "none"}
        self._spans.text(
            x, row, text, ha="center", va="center", fontsize=9, color=text_colour(ground), bbox=box
        )

    def _draw_curve(self, size_bytes: int, curve: Mapping[int, float], measured: Mapping[int, float]) -> None:
        milliseconds = [curve[size] * 1e3 for size in self._sizes]
        self._curve.plot(self._sizes, milliseconds, "-", color=OKABE_ITO["blue"], label="predicted")
        self._curve.plot(
            [size_bytes],
            [curve[size_bytes] * 1e3],
            "o",
            color=OKABE_ITO["blue"],
            markersize=9,
            label="chosen",
        )
        if measured:
            sizes = sorted(measured)
            times = [measured[size] * 1e3 for size in sizes]
            self._curve.plot(
                sizes,
                times,
                "s",
                color=OKABE_ITO["vermillion"],
                markersize=7,
                mfc="none",
                mew=2,
                label="measured",
            )
        top = max(*milliseconds, *(1e3 * value for value in measured.values()), 0.0)
        self._curve.set_ylim(0, top * 1.15)
        self._curve.legend(loc="lower right", ncols=3)


def _words(step: StepTime, size_bytes: int, measured: Mapping[int, float]) -> str:
    hidden = step.hidden_s / step.communication_s if step.communication_s else 0.0
    calls = f"{len(step.buckets)} all-reduce{'s' if len(step.buckets) > 1 else ''}"
    said = (
        f"Buckets of {bytes_text(size_bytes)}: {calls}, {time_text(step.communication_s)} in "
        f"all, {hidden:.0%} of it behind the backward pass. The step should take {time_text(step.time_s)}"
    )
    found = measured.get(size_bytes)
    return f"{said}; measured: {time_text(found)}." if found is not None else f"{said}."
