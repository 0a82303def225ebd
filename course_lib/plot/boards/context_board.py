"""A sequence cut among ranks at a glance: who computes which tiles of the causal mask, how much work that is in each
step, and what each rank sends.

Every rank has a colour and a hatch of its own. By the ring a rank computes rows of the mask, in every head; a number in
a tile is the step in which it does. By all-to-all it computes the whole mask of some heads. What was measured is a
black line over the bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from course_lib.cost.model_parallel.context import PassBytes
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.plot.boards.mesh_tiles import Area
from course_lib.plot.raster import Raster, Sheet, sentence
from course_lib.plot.style import OKABE_ITO, Look

__all__ = ["PASS_LOOKS", "ContextBoard", "rank_look"]

_WIDTH, _HEIGHT = 768, 424  # pixels of the screen
_MASK: Area = (58, 40, 348, 330)
_WORK: Area = (444, 40, 756, 174)
_BYTES: Area = (444, 254, 756, 372)
_COLOURS = [
    *(OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple", "blue", "vermillion", "yellow")),
    "#999999",
]
_HATCHES = ("", "/", "\\", "x", "|", ".", "/|", "x|")
_INK = "#333333"
_NARROW = 26  # pixels: no number above a bar that is narrower

PASS_LOOKS = {
    "forward": Look(OKABE_ITO["blue"], "", ""),
    "backward": Look(OKABE_ITO["orange"], "/", ""),
}


def rank_look(rank: int) -> Look:
    """The colour and the hatch of a rank."""
    return Look(_COLOURS[rank % len(_COLOURS)], _HATCHES[rank % len(_HATCHES)], "")


class ContextBoard:
    """Draws one setting after another."""

    def draw(
        self,
        cut: SequenceCut,
        way: str,
        num_heads: int,
        pairs: Sequence[Sequence[int]],
        sent: Sequence[PassBytes],
        *,
        alt: str,
        measured: Sequence[PassBytes] = (),
    ) -> Raster:
        """``way`` is "ring" or "all_to_all"; ``pairs[step][rank]``; ``sent`` by rank, and so what was measured."""
        sheet = Sheet(_WIDTH, _HEIGHT)
        if way == "ring":
            sheet.text(16, 14, f"The causal mask of each of {num_heads} heads, by rank", bold=True)
            _draw_ring_mask(sheet, cut, _MASK)
            under = "Queries go down, keys to the right; a number is the step (diagonal: 0)."
        else:
            sheet.text(16, 14, f"The causal masks of {num_heads} heads, by rank", bold=True)
            _draw_masks_of_heads(sheet, cut, num_heads, _MASK)
            under = "Queries go down, keys to the right. A rank has whole heads."
        sheet.text(16, _MASK[3] + 16, under, size=9)
        for rank in range(cut.num_ranks):
            x, y = 16 + 84 * (rank % 4), _MASK[3] + 42 + 24 * (rank // 4)
            sheet.box(x, y - 7, x + 24, y + 7, rank_look(rank))
            sheet.text(x + 30, y, f"rank {rank}", size=9)
        _draw_work(sheet, pairs, _WORK)
        _draw_bytes(sheet, sent, measured, _BYTES)
        return Raster(sheet.image, alt)

    def blank(self, said: str) -> Raster:
        """A sheet with a sentence, where there is nothing to draw."""
        return sentence(said, _WIDTH, _HEIGHT)


def _draw_ring_mask(sheet: Sheet, cut: SequenceCut, area: Area) -> None:
    """A row of tiles for each run of queries, a tile for each run of keys that they look at."""
    left, top, right, _ = area
    wide = (right - left) / cut.num_tokens  # of a position
    runs = [(place, run) for place in range(cut.num_ranks) for run in cut.runs(place)]
    for place, queries in runs:
        y0, y1 = top + queries.start * wide, top + queries.stop * wide
        sheet.text(left - 6, (y0 + y1) / 2, f"rank {place}" if cut.num_ranks < 8 else str(place), size=9, anchor="rm")
        for owner, keys in runs:
            if keys.start <= queries.start:
                box = (left + keys.start * wide, y0, left + keys.stop * wide, y1)
                if keys == queries:
                    sheet.box(*box, rank_look(place))
                    _cover_later_keys(sheet, box, len(keys))
                else:
                    sheet.box(*box, rank_look(place), str((place - owner) % cut.num_ranks))
    _outline(sheet, area)


def _draw_masks_of_heads(sheet: Sheet, cut: SequenceCut, num_heads: int, area: Area) -> None:
    """Two masks beside each other, as many rows as it takes."""
    left, top, right, _ = area
    side = (right - left - 24) / 2
    for head in range(num_heads):
        rank = head * cut.num_ranks // num_heads
        x, y = left + head % 2 * (side + 24), top + 12 + head // 2 * (side + 20)
        sheet.text(x, y - 10, f"head {head}: rank {rank}", size=9)
        box = (x, y, x + side - 10, y + side - 10)
        sheet.box(*box, rank_look(rank))
        _cover_later_keys(sheet, box, cut.num_tokens)
        _outline(sheet, box)


def _cover_later_keys(sheet: Sheet, box: Area, count: int) -> None:
    """Leave of a square of ``count`` positions what a causal mask lets be seen, with an outline along the stairs."""
    left, top, right, bottom = box
    size = (bottom - top) / count
    for at in range(count - 1):
        x, y = left + (at + 1) * size, top + at * size
        sheet.clear(x, y, right, y + size)
    for at in range(count):
        x, y = left + (at + 1) * size, top + at * size
        sheet.line(x, y, x, y + size, colour=_INK)
        sheet.line(x - size, y, x, y, colour=_INK)


def _draw_work(sheet: Sheet, pairs: Sequence[Sequence[int]], area: Area) -> None:
    """A group of bars for each step, a bar for each rank; the dashed line is the mean of all of them."""
    left, _, right, bottom = area
    every = [number for step in pairs for number in step]
    mean = sum(every) / len(every)
    y = _scale(sheet, area, max(every), "Pairs of each rank in each step, all heads", 1)
    group = (right - left) / len(pairs)
    wide = min(0.84 * group / len(pairs[0]), 40)
    for number, step in enumerate(pairs):
        middle = left + (number + 0.5) * group
        for rank, count in enumerate(step):
            x = middle + (rank - len(step) / 2) * wide
            if count:
                sheet.box(x, y(count), x + wide, bottom, rank_look(rank))
        sheet.text(middle, bottom + 11, f"step {number}" if len(pairs) < 8 else str(number), size=9, anchor="mm")
    for at in map(float, range(round(left), round(right), 9)):
        sheet.line(at, y(mean), at + 5, y(mean), colour="black", width=2)
    used = sheet.text(right, bottom + 29, "mean", size=9, anchor="rm")
    for at in (right - used - 20, right - used - 11):
        sheet.line(at, bottom + 29, at + 5, bottom + 29, colour="black", width=2)


def _draw_bytes(sheet: Sheet, sent: Sequence[PassBytes], measured: Sequence[PassBytes], area: Area) -> None:
    """Two bars for each rank, forward and backward."""
    left, _, right, bottom = area
    most = max([1024, *(size for each in (*sent, *measured) for size in (each.forward, each.backward))])
    y = _scale(sheet, area, most / 1024, "KiB that each rank sends", 1024)
    group = (right - left) / max(len(sent), 4)
    wide = 0.42 * group
    for rank, each in enumerate(sent):
        middle = left + (rank + 0.5) * group
        for x, look, size in zip(
            (middle - wide, middle), PASS_LOOKS.values(), (each.forward, each.backward), strict=True
        ):
            if size:
                sheet.box(x, y(size), x + wide, bottom, look)
            if wide > _NARROW:
                sheet.text(x + wide / 2, y(size) - 9, f"{size / 1024:,.1f}", size=8, anchor="mm")
        sheet.text(middle, bottom + 11, f"rank {rank}" if len(sent) < 8 else str(rank), size=9, anchor="mm")
    for rank, each in enumerate(measured):
        middle = left + (rank + 0.5) * group
        for x, size in ((middle - wide, each.forward), (middle, each.backward)):
            for colour, width in (("white", 7), ("black", 3)):
                sheet.line(x, y(size), x + wide, y(size), colour=colour, width=width)
    for at, (word, look) in enumerate(PASS_LOOKS.items()):
        sheet.box(left + 100 * at, bottom + 27, left + 24 + 100 * at, bottom + 41, look)
        sheet.text(left + 30 + 100 * at, bottom + 34, word, size=9)
    if measured:
        sheet.line(left + 208, bottom + 34, left + 232, bottom + 34, colour="black", width=3)
        sheet.text(left + 238, bottom + 34, "measured", size=9)


class _Scale:
    """From a value to its height on the sheet."""

    def __init__(self, bottom: float, high: float, end: float) -> None:
        self._bottom, self._high, self._end = bottom, high, end

    def __call__(self, value: float) -> float:
        return self._bottom - self._high * value / self._end


def _scale(sheet: Sheet, area: Area, most: float, title: str, unit: int) -> _Scale:
    """Axis, ticks and title of bars up to ``most`` units, of so many values each."""
    left, top, right, bottom = area
    sheet.text(left - 44, top - 26, title, bold=True)
    step = _tick(most / 4)
    y = _Scale(bottom, bottom - top, max(most, step) * 1.12 * unit)
    tick = step
    while tick <= max(most, step) * 1.06:
        sheet.line(left, y(tick * unit), right, y(tick * unit))
        sheet.text(left - 6, y(tick * unit), f"{tick:,g}", size=9, anchor="rm")
        tick += step
    sheet.line(left, bottom, right, bottom, colour="black", width=2)
    sheet.text(left - 6, bottom, "0", size=9, anchor="rm")
    return y


def _tick(about: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** floor(log10(about))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= about)


def _outline(sheet: Sheet, area: Area) -> None:
    left, top, right, bottom = area
    for line in (
        (left, top, right, top),
        (right, top, right, bottom),
        (left, bottom, right, bottom),
        (left, top, left, bottom),
    ):
        sheet.line(*line, colour=_INK)
