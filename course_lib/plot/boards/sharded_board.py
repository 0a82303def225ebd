"""The memory of a sharded step: a stacked bar for each part of the step, and one for each rank at its peak.

What was measured is a line over the bars. All settings share one scale, with DDP's peak as a dashed line, so that bars
can be compared from one setting to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from PIL import Image

from course_lib.cost.data_parallel.sharded_step import ShardedMoment
from course_lib.plot.raster import Raster, Sheet
from course_lib.plot.style import OKABE_ITO, Look

__all__ = ["LOOKS", "ShardedBoard"]

LOOKS = {  # by the name of what a moment holds, from the bottom of a bar to its top
    "kept": Look(OKABE_ITO["blue"], "", ""),
    "gradients": Look(OKABE_ITO["orange"], "/", ""),
    "whole": Look(OKABE_ITO["sky blue"], "|", ""),
    "whole_gradients": Look(OKABE_ITO["vermillion"], "\\", ""),
    "messages": Look(OKABE_ITO["purple"], "x", ""),
}
_WORDS = {
    "kept": "kept: weights, states",
    "gradients": "its rows of gradients",
    "whole": "weights, whole for a moment",
    "whole_gradients": "whole gradients",
    "messages": "messages",
}
_KIB = 1024
_WIDTH, _HEIGHT = 768, 392  # of the picture, in pixels of the screen
_TOP, _BOTTOM = 40, 296  # of the bars' ground
_GAP = 0.08  # on either side of a bar, of its place
_MOST_LABELS = 6  # units that get a number under the axis, in each direction
_GREY, _OWN = "#777777", OKABE_ITO["green"]


@dataclass(frozen=True)
class _Panel:
    """A stretch of the sheet with bars side by side: from pixel to pixel, up to so many bytes."""

    sheet: Sheet
    left: float
    right: float
    num_bars: int
    end_bytes: float

    def x(self, place: float) -> float:
        """The left edge of the bar at ``place``; its middle is half a place further."""
        return self.left + (self.right - self.left) * place / self.num_bars

    def y(self, size_bytes: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * size_bytes / self.end_bytes

    def grid(self, ticks_bytes: Sequence[int]) -> None:
        for tick in ticks_bytes:
            self.sheet.line(self.left, self.y(tick), self.right, self.y(tick))

    def bars(self, moments: Sequence[ShardedMoment]) -> None:
        for at, moment in enumerate(moments):
            floor = 0
            for name, look in LOOKS.items():
                roof = floor + getattr(moment, name)
                if roof > floor:
                    self.sheet.box(self.x(at + _GAP), self.y(roof), self.x(at + 1 - _GAP), self.y(floor), look)
                floor = roof

    def dashes(self, size_bytes: float) -> None:
        y = self.y(size_bytes)
        for x in range(round(self.left), round(self.right), 9):
            self.sheet.line(x, y, min(x + 5, self.right), y, colour="black", width=2)

    def measured(self, sizes_bytes: Sequence[int], ink: str) -> None:
        """A level over each bar, joined; ink on white, to be seen on every colour."""
        levels = [(self.x(at), self.x(at + 1), self.y(size)) for at, size in enumerate(sizes_bytes)]
        for colour, width in (("white", 7), (ink, 3)):
            for left, right, y in levels:
                self.sheet.line(left, y, right, y, colour=colour, width=width)
            for (_, x, y0), (_, _, y1) in pairwise(levels):
                self.sheet.line(x, y0, x, y1, colour=colour, width=width)


class ShardedBoard:
    """Draws one setting after another. ``limit_bytes`` is DDP's peak: the dashed line, which is always in view."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes

    def draw(
        self,
        phases: Sequence[ShardedMoment],
        ranks: Mapping[str, ShardedMoment],
        *,
        title: str,
        alt: str,
        measured: Sequence[int] = (),
        measured_ranks: Sequence[int] = (),
        yours: Sequence[int] = (),
        yours_ranks: Sequence[int] = (),
    ) -> Raster:
        """The largest moment of each part of a step (before, each unit's forward and backward, the optimizer's step),
        those of ranks at their peaks, by name, and the bytes that were measured of both, by the learner's own as
        well."""
        sizes = [one.total for one in (*phases, *ranks.values())]
        end_bytes = 1.12 * max([*sizes, self._limit_bytes, *measured, *measured_ranks, *yours, *yours_ranks])
        sheet = Sheet(_WIDTH, _HEIGHT)
        sheet.image.paste(_key(bool(measured), bool(yours)), (0, round(sheet.image.height * (_HEIGHT - 46) / _HEIGHT)))
        parts = _Panel(sheet, 56, 566, len(phases), end_bytes)
        at_peak = _Panel(sheet, 590, 758, max(len(ranks), 2), end_bytes)
        sheet.text(56, 14, title, size=11, bold=True)
        sheet.text(674, 14, "each rank at its peak", anchor="mm")
        self._ground(parts, at_peak)
        for panel, moments, found, own in (
            (parts, phases, measured, yours),
            (at_peak, list(ranks.values()), measured_ranks, yours_ranks),
        ):
            panel.bars(moments)
            panel.dashes(self._limit_bytes)
            for sizes_bytes, ink in ((found, "black"), (own, _OWN)):
                if sizes_bytes:
                    panel.measured(sizes_bytes, ink)
            sheet.line(panel.left, _BOTTOM, panel.right, _BOTTOM, colour="black", width=2)
        _name_parts(parts, len(phases))
        for at, name in enumerate(ranks):
            sheet.text(at_peak.x(at + 0.5), _BOTTOM + 11, name, size=9, anchor="mm")
        sheet.text(674, _BOTTOM + 32, "rank", anchor="mm")
        return Raster(sheet.image, alt)

    def _ground(self, parts: _Panel, at_peak: _Panel) -> None:
        ticks = range(0, round(parts.end_bytes / _KIB), 1000)
        for panel in (parts, at_peak):
            panel.grid([tick * _KIB for tick in ticks])
        for tick in ticks:
            parts.sheet.text(50, parts.y(tick * _KIB), f"{tick}", size=9, anchor="rm")
        parts.sheet.text(50, _TOP - 8, "KiB", size=9, anchor="rm")
        parts.sheet.text(60, parts.y(self._limit_bytes) - 8, "DDP's peak", size=9)


def _name_parts(parts: _Panel, num_parts: int) -> None:
    """Numbers of units below the bars, and which direction they belong to."""
    num_units, sheet = (num_parts - 2) // 2, parts.sheet
    every = -(-num_units // _MOST_LABELS)
    for at, unit in enumerate([*range(num_units), *reversed(range(num_units))], start=1):
        if unit % every == 0:
            sheet.text(parts.x(at + 0.5), _BOTTOM + 11, f"{unit}", size=9, anchor="mm")
    for place, text in (
        (0.5, "before"),
        (1 + num_units / 2, "forward, by unit"),
        (1 + 1.5 * num_units, "backward"),
        (num_parts - 0.5, "step"),
    ):
        sheet.text(parts.x(place), _BOTTOM + 32, text, anchor="mm")
    for place in (1, 1 + num_units, 1 + 2 * num_units):
        sheet.line(parts.x(place), _BOTTOM, parts.x(place), _BOTTOM + 22, colour=_GREY)


@lru_cache(maxsize=4)
def _key(is_measured: bool, has_yours: bool) -> Image.Image:
    """What the looks mean: two rows of three."""
    sheet = Sheet(_WIDTH, 46)
    for number, (name, look) in enumerate(LOOKS.items()):
        x, y = 56 + 240 * (number % 3), 8 + 20 * (number // 3)
        sheet.box(x, y, x + 26, y + 13, look)
        sheet.text(x + 34, y + 6.5, _WORDS[name], size=9)
    if is_measured:
        sheet.line(536, 34.5, 562, 34.5, colour="black", width=3)
        sheet.text(570, 34.5, "measured", size=9, bold=True)
    if has_yours:
        sheet.line(650, 34.5, 676, 34.5, colour=_OWN, width=3)
        sheet.text(684, 34.5, "yours", size=9, bold=True)
    return sheet.image
