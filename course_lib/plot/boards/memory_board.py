"""Stacked bars of memory that follow a control: those of ``bars.py``, painted box by box in a few milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from PIL import Image

from course_lib.meter.memory.balance import LABELS, check_label
from course_lib.meter.units import bytes_text
from course_lib.plot.bars import Bars, byte_ticks, memory_words, rows_of
from course_lib.plot.raster import Raster, Sheet
from course_lib.plot.style import LABEL_LOOKS

__all__ = ["MemoryBoard"]

_WIDTH, _LEFT, _RIGHT = 768, 56, 752
_TOP, _ROW, _BAR = 52, 42, 28  # of the first row's bar; from row to row; how high a bar is
_BELOW = 84  # from the last row to the end of the sheet: axis, its name, key
_FOR_NUMBER = 1.14  # room behind the longest bar


class MemoryBoard:
    """A bar of the same names again and again; ``labels`` are in the key, whether they hold bytes or not."""

    def __init__(self, names: Sequence[str], labels: Sequence[str], *, title: str = "") -> None:
        self._names, self._title = tuple(names), title
        self._labels = tuple(check_label(label) for label in labels)

    def draw(self, bars: Bars, *, limit_bytes: int | None = None) -> Raster:
        """The bars; ``limit_bytes`` is a dashed line. Other names than the board's are a ``ValueError``."""
        rows = rows_of(bars)
        if tuple(rows) != self._names:
            raise ValueError(f"the bars are {', '.join(rows)}; this board draws {', '.join(self._names)}")
        end_bytes = _FOR_NUMBER * max([*(sum(sizes.values()) for sizes in rows.values()), limit_bytes or 0, 1])
        bottom = _TOP + _ROW * len(rows)
        sheet = Sheet(_WIDTH, bottom + _BELOW)
        sheet.text(_LEFT, 14, self._title, size=11, bold=True)
        _draw_axis(sheet, end_bytes, bottom)
        for at, (name, sizes) in enumerate(rows.items()):
            _draw_bar(sheet, name, sizes, _TOP + _ROW * at, end_bytes)
        if limit_bytes is not None:
            x = _x(limit_bytes, end_bytes)
            for y in range(_TOP - 12, bottom, 9):
                sheet.line(x, y, x, min(y + 5, bottom), colour="black", width=2)
            sheet.text(x - 4, _TOP - 13, f"limit {bytes_text(limit_bytes)}", size=9, anchor="rm")
        sheet.image.paste(_key(self._labels), (0, sheet.image.height - _key(self._labels).height))
        return Raster(sheet.image, memory_words(rows, self._title, limit_bytes))


def _x(size_bytes: float, end_bytes: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * size_bytes / end_bytes


def _draw_axis(sheet: Sheet, end_bytes: float, bottom: float) -> None:
    """Lines at round numbers, the numbers, and their unit."""
    unit, ticks = byte_ticks(end_bytes)
    for place, name in ticks:
        x = _x(place, end_bytes)
        sheet.line(x, _TOP - 12, x, bottom)
        sheet.text(x, bottom + 11, name, anchor="mm")
    sheet.line(_LEFT, _TOP - 12, _LEFT, bottom, colour="black")
    sheet.line(_LEFT, bottom, _RIGHT, bottom, colour="black")
    sheet.text((_LEFT + _RIGHT) / 2, bottom + 32, f"memory ({unit})", anchor="mm")


def _draw_bar(sheet: Sheet, name: str, sizes: Mapping[str, int], top: float, end_bytes: float) -> None:
    """Its name, a box for each label, and the sum."""
    middle, floor = top + _BAR / 2, 0
    sheet.text(_LEFT - 8, middle, name, anchor="rm")
    for label in LABELS:
        size = sizes.get(label, 0)
        if size:
            look = LABEL_LOOKS[label]
            ends = _x(floor, end_bytes), _x(floor + size, end_bytes)
            sheet.box(ends[0], top, ends[1], top + _BAR, look, look.letter)
        floor += size
    sheet.text(_x(floor, end_bytes) + 5, middle, bytes_text(floor))


@lru_cache(maxsize=8)
def _key(labels: tuple[str, ...]) -> Image.Image:
    """What the looks mean, in a row."""
    sheet, x = Sheet(_WIDTH, 30), float(_LEFT)
    for label in labels:
        look = LABEL_LOOKS[label]
        sheet.box(x, 6, x + 24, 20, look)
        x += 40 + sheet.text(x + 30, 13, f"{look.letter}  {label}", size=9)
    return sheet.image
