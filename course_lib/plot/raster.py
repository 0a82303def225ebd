"""Pictures painted box by box, without matplotlib: some follow a control, and hundreds of boxes must not take a second.

Same colours, letters and hatches as the other pictures (``style.py``); sizes are in pixels of the screen, and drawn
finer than that so that letters stay sharp.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

from course_lib.plot.bundle import bundle_of
from course_lib.plot.style import OUTLINE, Look, hatch_colour, text_colour

__all__ = ["Raster", "Sheet", "sentence"]

_DENSITY = 1.5
_SMOOTH = 3  # times finer again: what slants and what is round
_HATCH_STEP = 9  # pixels between the lines of a hatch
_HALF_LETTER = 5.5 * _DENSITY  # from the middle of a text in a box to above its highest letter, in fine pixels
_WIDEST_KEPT = 150  # fine pixels


@dataclass(frozen=True, repr=False)
class Raster:
    """A painted picture and the sentence that says what it shows: displays as a PNG, as text it is the sentence."""

    image: Image.Image
    alt: str

    def png(self) -> bytes:
        buffer = io.BytesIO()
        self.image.save(buffer, "png", compress_level=1)
        return buffer.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the PNG to ``path``."""
        path = Path(path)
        path.write_bytes(self.png())
        return path

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the screen, in pixels."""
        return round(self.image.width / _DENSITY), round(self.image.height / _DENSITY)

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        return bundle_of(self.png(), self.alt, self.size)


class Sheet:
    """White paper of ``width`` x ``height`` pixels to paint on; all positions in pixels from the upper left."""

    def __init__(self, width: float, height: float) -> None:
        size = (round(width * _DENSITY), round(height * _DENSITY))
        self.image = Image.new("RGB", size, "white")
        self._draw = ImageDraw.Draw(self.image)

    def box(self, left: float, top: float, right: float, bottom: float, look: Look, text: str = "") -> None:
        """A box in a look, with a text in its middle where the text fits."""
        x0, y0, x1, y1 = (round(value * _DENSITY) for value in (left, top, right, bottom))
        x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)  # what is there is seen
        if text and _text_width(text) + 4 > x1 - x0:
            text = ""
        if x1 - x0 <= _WIDEST_KEPT and (not text or y1 - y0 >= 2 * _HALF_LETTER):  # no letter stands out of it
            self.image.paste(_tile(x1 - x0, y1 - y0, look, text), (x0, y0))
        else:
            _paint(self.image, (x0, y0, x1, y1), look, text)

    def clear(self, left: float, top: float, right: float, bottom: float) -> None:
        """Make a rectangle blank paper again, without an outline."""
        self._draw.rectangle([round(value * _DENSITY) for value in (left, top, right, bottom)], fill="white")

    def text(self, x: float, y: float, text: str, *, size: float = 10, anchor: str = "lm", bold: bool = False) -> float:
        """Write ``text``; returns how wide it is. ``anchor`` as in Pillow: "lm" is left, middle."""
        font = _font(size, bold=bold)
        self._draw.text((x * _DENSITY, y * _DENSITY), text, fill="black", font=font, anchor=anchor)
        return float(font.getlength(text)) / _DENSITY

    def line(self, x0: float, y0: float, x1: float, y1: float, *, colour: str = "#DDDDDD", width: int = 1) -> None:
        points = [round(value * _DENSITY) for value in (x0, y0, x1, y1)]
        self._draw.line(points, fill=colour, width=width)

    def curve(self, points: Sequence[tuple[float, float]], *, colour: str, width: float = 1.6) -> None:
        """A line through points, smooth where it slants."""
        left, top = (min(point[axis] for point in points) - 3 for axis in (0, 1))
        right, bottom = (max(point[axis] for point in points) + 3 for axis in (0, 1))
        scale = _DENSITY * _SMOOTH
        size = round((right - left) * scale), round((bottom - top) * scale)
        mask = Image.new("L", size)
        placed = [((x - left) * scale, (y - top) * scale) for x, y in points]
        ImageDraw.Draw(mask).line(placed, fill=255, width=round(width * scale), joint="curve")
        self._stain(mask, left, top, colour)

    def spot(self, x: float, y: float, *, colour: str) -> None:
        """A round mark."""
        self._mark(x, y, colour, hollow=False)

    def ring(self, x: float, y: float, *, colour: str) -> None:
        """A hollow mark, which hides nothing."""
        self._mark(x, y, colour, hollow=True)

    def _mark(self, x: float, y: float, colour: str, *, hollow: bool) -> None:
        scale, radius = _DENSITY * _SMOOTH, 5.0
        mask = Image.new("L", (round(2 * (radius + 1) * scale),) * 2)
        ends = (scale, scale, (2 * radius + 1) * scale, (2 * radius + 1) * scale)
        ImageDraw.Draw(mask).ellipse(ends, fill=0 if hollow else 255, outline=255, width=round(2 * scale))
        self._stain(mask, x - radius - 1, y - radius - 1, colour)

    def _stain(self, mask: Image.Image, left: float, top: float, colour: str) -> None:
        """Colour where a mask of finer pixels is white."""
        mask = mask.reduce(_SMOOTH)
        at = round(left * _DENSITY), round(top * _DENSITY)
        self.image.paste(Image.new("RGB", mask.size, colour), at, mask)


def sentence(said: str, width: float, height: float) -> Raster:
    """A sheet with nothing but a sentence, in lines of about 100 letters."""
    sheet, line, y = Sheet(width, height), "", 40.0
    for word in said.split():
        if len(line) + len(word) > 100:
            sheet.text(16, y, line)
            line, y = "", y + 20
        line = f"{line} {word}".strip()
    sheet.text(16, y, line)
    return Raster(sheet.image, said)


@lru_cache(maxsize=4096)
def _tile(width: int, height: int, look: Look, text: str) -> Image.Image:
    """A box by itself: a picture has hundreds that are equal, and the next picture the same ones."""
    tile = Image.new("RGB", (width, height), "white")
    _paint(tile, (0, 0, width, height), look, text)
    return tile


def _paint(image: Image.Image, place: tuple[int, int, int, int], look: Look, text: str) -> None:
    """A box in a look, and the text in its middle."""
    x0, y0, x1, y1 = place
    draw = ImageDraw.Draw(image)
    if look.hatch and x1 - x0 > 3:
        strip = _hatched(look.colour, look.hatch, y1 - y0)
        for at in range(x0, x1, strip.width):
            image.paste(strip.crop((0, 0, min(strip.width, x1 - at), y1 - y0)), (at, y0))
    else:
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), fill=look.colour)
    x, y, half = (x0 + x1) / 2, (y0 + y1) / 2, _text_width(text) / 2 + 2
    if text and look.hatch:  # the lines of a hatch must not run through the letters
        draw.rectangle((x - half, y - _HALF_LETTER, x + half, y + _HALF_LETTER), fill=look.colour)
    if min(x1 - x0, y1 - y0) > 3:  # of a thinner one nothing would be left
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), outline=OUTLINE)
    if text:
        draw.text((x, y), text, fill=text_colour(look.colour), font=_font(9), anchor="mm")


@lru_cache(maxsize=4096)
def _text_width(text: str) -> float:
    """Of a text in a box, in fine pixels."""
    return float(_font(9).getlength(text))


@lru_cache(maxsize=64)
def _hatched(colour: str, hatch: str, height: int) -> Image.Image:
    """A strip of a colour under the lines of a hatch, so wide that it can be laid end to end."""
    step = round(_HATCH_STEP * _DENSITY)
    width = step * max(1, 240 // step)
    strip = Image.new("RGB", (width, height), colour)
    draw = ImageDraw.Draw(strip)
    ink = hatch_colour(colour)
    for x in range(-height - step, width + height + step, step):
        if "/" in hatch or "x" in hatch:
            draw.line((x, height, x + height, 0), fill=ink)
        if "\\" in hatch or "x" in hatch:
            draw.line((x, 0, x + height, height), fill=ink)
        if "|" in hatch:
            draw.line((x, 0, x, height), fill=ink)
        if "." in hatch:
            draw.point([(x, y) for y in range(2, height, 5)], fill=ink)
    return strip


@lru_cache(maxsize=8)
def _font(size: float, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """The letters of the other pictures, which matplotlib ships; size in pixels of the screen, times 1.3 as points."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(mpl.get_data_path(), "fonts", "ttf", name), round(size * 1.3 * _DENSITY))
