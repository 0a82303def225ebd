"""A data-parallel step and its buckets: above, what overlaps with what; below, the step's time by size of bucket.

Painted box by box, since it follows a control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from course_lib.cost.data_parallel.step import StepTime
from course_lib.meter.units import bytes_text, time_text
from course_lib.plot.raster import Raster, Sheet
from course_lib.plot.style import OKABE_ITO, Look, look_of_span

__all__ = ["BucketBoard"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 768, 376, 88, 752
_COMPUTING, _SENDING, _BAR = 34, 74, 29  # tops of the rows, and how high a box is
_AXIS = 110  # below the rows
_TOP, _BOTTOM = 176, 326  # of the curve
_INSIDE = 20  # from the edge of the curve's ground to its first point
_WAITING = Look("#DDDDDD", "", "")
_RINGS = {"measured": OKABE_ITO["vermillion"], "yours": OKABE_ITO["green"]}


class BucketBoard:
    """Draws one step after another. ``curve`` maps a size of bucket in bytes to the predicted seconds of a step."""

    def __init__(self, sizes_bytes: Sequence[int]) -> None:
        self._sizes = list(sizes_bytes)

    def draw(
        self,
        step: StepTime,
        size_bytes: int,
        curve: Mapping[int, float],
        measured: Mapping[int, float],
        yours: Mapping[int, float] | None = None,
    ) -> Raster:
        """The step with buckets of ``size_bytes``, the predicted curve, and what was measured; seconds by size.

        ``yours`` is what the learner's own took, of the same steps.
        """
        sheet, yours = Sheet(_WIDTH, _HEIGHT), yours or {}
        _draw_spans(sheet, step)
        self._draw_curve(sheet, size_bytes, curve, measured, yours)
        return Raster(sheet.image, _words(step, size_bytes, measured, yours))

    def _draw_curve(
        self,
        sheet: Sheet,
        chosen: int,
        curve: Mapping[int, float],
        measured: Mapping[int, float],
        yours: Mapping[int, float],
    ) -> None:
        end_ms = 1.15e3 * max(*(curve[size] for size in self._sizes), *measured.values(), *yours.values(), 1e-9)

        def at(size: int, time_s: float) -> tuple[float, float]:
            share = self._sizes.index(size) / max(len(self._sizes) - 1, 1)
            x = _LEFT + _INSIDE + (_RIGHT - _LEFT - 2 * _INSIDE) * share
            return x, _BOTTOM - (_BOTTOM - _TOP) * time_s * 1e3 / end_ms

        for tick in _ticks(end_ms):
            _, y = at(chosen, tick / 1e3)
            sheet.line(_LEFT, y, _RIGHT, y)
            sheet.text(_LEFT - 6, y, f"{tick:g}", anchor="rm")
        for size in self._sizes[::2]:
            x, _ = at(size, 0.0)
            sheet.line(x, _TOP, x, _BOTTOM)
            sheet.text(x, _BOTTOM + 12, bytes_text(size), anchor="mm")
        sheet.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, colour="black")
        sheet.text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "size of a bucket", anchor="mm")
        sheet.text(_LEFT, _TOP - 12, "step (ms)")
        blue = OKABE_ITO["blue"]
        sheet.curve([at(size, curve[size]) for size in self._sizes], colour=blue)
        sheet.spot(*at(chosen, curve[chosen]), colour=blue)
        rings = {name: found for name, found in (("measured", measured), ("yours", yours)) if found}
        for name, found in rings.items():
            for size, time_s in found.items():
                sheet.ring(*at(size, time_s), colour=_RINGS[name])
        _key(sheet, blue, list(rings))


def _key(sheet: Sheet, blue: str, rings: Sequence[str]) -> None:
    """What line, spot and rings mean, on the right above the curve."""
    y = _TOP - 12
    x = _RIGHT - 190 - 90 * len(rings)
    sheet.curve([(x, y), (x + 22, y)], colour=blue)
    sheet.text(x + 28, y, "predicted", size=9)
    sheet.spot(x + 116, y, colour=blue)
    sheet.text(x + 128, y, "chosen", size=9)
    for number, name in enumerate(rings):
        sheet.ring(x + 196 + 90 * number, y, colour=_RINGS[name])
        sheet.text(x + 208 + 90 * number, y, name, size=9)


def _ticks(end: float) -> list[float]:
    """Three to six round numbers from 0 to ``end``."""
    step = 10.0 ** math.floor(math.log10(end / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if end / (step * factor) <= 5)
    return [step * number for number in range(math.floor(end / step) + 1)]


def _draw_spans(sheet: Sheet, step: StepTime) -> None:
    end_s = max(step.forward_s + step.backward_s + step.exposed_s, 1e-12)

    def x(time_s: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * time_s / (1.02 * end_s)

    def box(name: str, kind: str, top: float, start_s: float, time_s: float) -> None:
        look = look_of_span(name, kind)[1]
        sheet.box(x(start_s), top, x(start_s + time_s), top + _BAR, look, name)

    sheet.text(_LEFT, 12, f"One step, predicted: {time_text(end_s)}", size=11, bold=True)
    for top, name in ((_COMPUTING, "computing"), (_SENDING, "sending")):
        sheet.text(_LEFT - 8, top + _BAR / 2, name, anchor="rm")
    for tick in _ticks(1.02e3 * end_s):
        sheet.line(x(tick / 1e3), _COMPUTING - 4, x(tick / 1e3), _AXIS)
        sheet.text(x(tick / 1e3), _AXIS + 11, f"{tick:g}", anchor="mm")
    if step.exposed_s > 0:
        waits_s = step.forward_s + step.backward_s
        sheet.box(x(waits_s), _COMPUTING, x(end_s), _AXIS, _WAITING)
        sheet.box(x(waits_s), _COMPUTING, x(end_s), _COMPUTING + _BAR, _WAITING, "waiting")
    box("forward", "compute", _COMPUTING, 0.0, step.forward_s)
    box("backward", "compute", _COMPUTING, step.forward_s, step.backward_s)
    for number, bucket in enumerate(step.buckets, 1):
        start_s = step.forward_s + bucket.start_s
        box(f"{number}", "collective", _SENDING, start_s, bucket.end_s - bucket.start_s)
    sheet.line(_LEFT, _AXIS, _RIGHT, _AXIS, colour="black")
    sheet.text((_LEFT + _RIGHT) / 2, _AXIS + 30, "time in the step (ms)", anchor="mm")


def _words(step: StepTime, size_bytes: int, measured: Mapping[int, float], yours: Mapping[int, float]) -> str:
    hidden = step.hidden_s / step.communication_s if step.communication_s else 0.0
    calls = f"{len(step.buckets)} all-reduce{'s' if len(step.buckets) > 1 else ''}"
    said = (
        f"Buckets of {bytes_text(size_bytes)}: {calls}, {time_text(step.communication_s)} in "
        f"all, {hidden:.0%} of it behind the backward pass. The step should take {time_text(step.time_s)}"
    )
    if size_bytes in measured:
        said += f"; measured: {time_text(measured[size_bytes])}"
    if size_bytes in yours:
        said += f"; yours: {time_text(yours[size_bytes])}"
    return f"{said}."
