"""Picture of part b: two devices, each with all that is kept; which part is smaller than on one?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, arrow, box, drawing, word

_PARTS = (("optimizer state", 8.0), ("gradients", 4.0), ("weights", 4.0), ("activations", 8.0))


def twice() -> Figure:
    """One device, and two of data parallelism with a question mark in each part."""
    figure, axes = drawing(8, 3.6)
    _device(axes, 3, "one device", [name for name, _ in _PARTS], "the whole batch")
    arrow(axes, (20.5, 18), (29.5, 18), color=GREY)
    word(axes, 25, 20.4, "data\nparallelism", size=9.5, color=GREY)
    for place in range(2):
        _device(axes, 31 + 18.5 * place, f"device {place}", ["?"] * len(_PARTS), "half of the batch")
    word(axes, 73.3, 18, "which\npart is\nsmaller?", size=11, weight="bold")
    return figure


def _device(axes: Axes, x: float, title: str, texts: list[str], below: str) -> None:
    word(axes, x + 8, 33.4, title, size=11, weight="bold")
    y = 6.5
    for place, ((_, high), text) in enumerate(zip(_PARTS, texts, strict=True)):
        box(axes, x, y, 16, high, text, colour=COLOURS[place], size=10)
        y += high
    word(axes, x + 8, 3.6, below, size=10, color=INK)
