"""The one look of the course's pictures: colours that colour-blind readers tell apart, and a second cue for
each.

Colours are those of Okabe and Ito (jfly.uni-koeln.de/color, 2008). None is used alone: each comes with a
letter or a hatch. Every bar and tile has an outline, for light colours stand out from white by less than 3 to 1, and
in a dark theme from its ground; a line is drawn in a darker shade. Yellow is used where no other is free. Figures are
made without pyplot, so that nothing is kept behind the scenes, and stand on white; ``dark.py`` says what a dark theme
makes of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from course_lib.plot.bundle import bundle_of
from course_lib.plot.dark import GROUND, in_the_dark

__all__ = [
    "LABEL_LOOKS",
    "OKABE_ITO",
    "OUTLINE",
    "Look",
    "Picture",
    "canvas",
    "hatch_colour",
    "key",
    "line_colour",
    "look_of_span",
    "outlined",
    "png",
    "text_colour",
    "word_colour",
]

OKABE_ITO = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
}

OUTLINE = "#333333"
"""Of every bar, box and tile: more than 4.5 to 1 from the ground in both themes."""

_RC: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture everywhere
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
_HATCH_DARK, _HATCH_LIGHT = 0.42, 0.3  # shares of a colour, and of its distance from white
_SCREEN_DPI, _DENSITY = 96, 1.5  # drawn finer than shown, so that letters stay sharp


@dataclass(frozen=True)
class Look:
    """How a thing is drawn: its colour, and the hatch and letter that tell it apart without colour."""

    colour: str
    hatch: str
    letter: str


LABEL_LOOKS = {
    "parameter": Look(OKABE_ITO["blue"], "", "P"),
    "buffer": Look(OKABE_ITO["black"], "xx", "B"),
    "gradient": Look(OKABE_ITO["orange"], "//", "G"),
    "optimizer state": Look(OKABE_ITO["green"], "\\\\", "O"),
    "input": Look(OKABE_ITO["purple"], "..", "I"),
    "activation": Look(OKABE_ITO["vermillion"], "", "A"),
    "other": Look(OKABE_ITO["sky blue"], "--", "X"),
}

_SPAN_LOOKS = {
    # by name, where a name says more than its kind
    "forward": Look(OKABE_ITO["blue"], "", "F"),
    "backward": Look(OKABE_ITO["orange"], "//", "B"),
    "step": Look(OKABE_ITO["green"], "\\\\", "S"),
    "all_gather": Look(OKABE_ITO["green"], "..", "G"),
    "reduce_scatter": Look(OKABE_ITO["vermillion"], "//", "R"),
    # by kind
    "compute": Look(OKABE_ITO["blue"], "", "C"),
    "send": Look(OKABE_ITO["purple"], "||", "→"),
    "recv": Look(OKABE_ITO["purple"], "..", "←"),
    "collective": Look(OKABE_ITO["vermillion"], "xx", "R"),
    "wait": Look("#BBBBBB", "", "w"),
    "idle": Look("#FFFFFF", "", ""),
    "data": Look(OKABE_ITO["sky blue"], "..", "D"),
}


def look_of_span(name: str, kind: str) -> tuple[str, Look]:
    """The look of a span, and its word in the key: its name where that has a look, else its kind."""
    word = name if name in _SPAN_LOOKS else kind
    return word, _SPAN_LOOKS[word]


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure and the sentence that says what it shows: displays as a PNG, as text it is the sentence."""

    figure: Figure
    alt: str

    def png(self) -> bytes:
        """The picture as PNG bytes, as ``ipywidgets.Image`` takes them."""
        return png(self.figure)

    def svg(self) -> bytes:
        """The picture as SVG, letters as outlines; equal figures, equal bytes."""
        buffer = io.BytesIO()
        with style(), mpl.rc_context({"svg.hashsalt": "course"}):
            self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": self.alt})
        return buffer.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the PNG to ``path``."""
        path = Path(path)
        path.write_bytes(self.png())
        return path

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a notebook shows: the image, and the text in its place where there are no images."""
        width, height = (round(inches * _SCREEN_DPI) for inches in self.figure.get_size_inches())
        return bundle_of(self.png(), self.alt, (width, height))


def png(figure: Figure, *, density: float = _DENSITY) -> bytes:
    """A figure as PNG bytes, with ``density`` pixels for each of the screen's; equal figures, equal bytes.

    Drawn and encoded directly, which is quicker than ``savefig``: some pictures follow a control.
    """
    agg = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    with style():
        figure.set_dpi(_SCREEN_DPI * density)
        agg.draw()
    pixels = np.ascontiguousarray(np.asarray(agg.buffer_rgba())[..., :3])  # opaque: no alpha needed
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", compress_level=3)
    return buffer.getvalue()


def style() -> AbstractContextManager[None]:
    """The style as a context: whatever is drawn inside looks like the rest."""
    return mpl.rc_context(_RC)


@contextmanager
def canvas(*, width: float = 8.0, height: float = 3.0, title: str = "") -> Iterator[tuple[Figure, Axes]]:
    """A figure with one pair of axes in the course's style, sizes in inches; draw inside the block."""
    with style():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        if title:
            axes.set_title(title)
        yield figure, axes


def key(figure: Figure, looks: dict[str, Look]) -> None:
    """A key below the axes: colour, hatch and letter of each word."""
    patches = [Patch(**outlined(look), label=f"{look.letter}  {word}".strip()) for word, look in looks.items()]
    columns = 4 if sum(len(word) + 8 for word in looks) > 95 else len(patches)
    figure.legend(handles=patches, loc="outside lower center", ncols=max(columns, 1), handlelength=1.8)


def outlined(look: Look) -> dict[str, Any]:
    """What a patch of matplotlib is given, so that it has the look and an outline."""
    look_of_patch = {"facecolor": look.colour, "edgecolor": OUTLINE, "linewidth": 0.6, "hatch": look.hatch}
    if look.hatch and hasattr(Patch, "set_hatchcolor"):  # before matplotlib 3.11 a hatch has the outline's colour
        look_of_patch["hatchcolor"] = hatch_colour(look.colour)
    return look_of_patch


def hatch_colour(ground: str) -> str:
    """Of the lines on a colour: the colour much darker where it is light, much lighter where it is dark."""
    red, green, blue = to_rgb(ground)
    if text_colour(ground) == "black":
        return to_hex((_HATCH_DARK * red, _HATCH_DARK * green, _HATCH_DARK * blue))
    rest = [_HATCH_LIGHT * (1 - channel) for channel in (red, green, blue)]
    return to_hex((1 - rest[0], 1 - rest[1], 1 - rest[2]))


def line_colour(colour: str) -> str:
    """Of a line or an arrow, which has no outline: the colour, darkened until it stands out in both themes."""
    return _darkened(colour, 3.1)


def word_colour(colour: str) -> str:
    """Of words beside a box: the colour, darkened until they can be read in both themes."""
    return _darkened(colour, 4.6)


def _darkened(colour: str, ratio: float) -> str:
    """The lightest shade of a colour that is at least ``ratio`` to 1 from the ground of either theme."""
    red, green, blue = to_rgb(colour)
    share = 1.0
    while not _stands_out(shade := to_hex((share * red, share * green, share * blue)), ratio):
        share -= 0.01
    return shade


def _stands_out(colour: str, ratio: float) -> bool:
    light, dark = (_luminance(to_rgb(one)) for one in (colour, in_the_dark(colour)))
    return ratio * (light + 0.05) <= 1.05 and dark + 0.05 >= ratio * (_luminance(to_rgb(GROUND)) + 0.05)


def text_colour(ground: str) -> str:
    """Black or white, whichever stands out more from ``ground``."""
    return "black" if (_luminance(to_rgb(ground)) + 0.05) ** 2 > 0.05 * 1.05 else "white"


def _luminance(channels: tuple[float, float, float]) -> float:
    """Relative luminance of WCAG 2.2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
