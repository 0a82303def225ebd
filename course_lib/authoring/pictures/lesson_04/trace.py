"""The picture of part e: the rows of a trace, and which of them runs when is asked."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, box, drawing, word
from course_lib.plot import OKABE_ITO
from course_lib.traces import table_rows

__all__ = ["rows"]

_LOOKS = {"forward": ("sky blue", ""), "backward": ("orange", "//"), "optimizer": ("green", "\\\\")}
_LEFT, _WIDE = 14.0, 63.0  # of the time axis


def rows() -> Figure:
    """The host of the first step on the A100, to scale; its GPU's two streams are empty, with a question mark each."""
    table = table_rows("ddp_resnet_2xa100")
    step = next(row for row in table if row.name.startswith("ProfilerStep"))
    figure, axes = drawing(8, 2.7)
    for y, (title, what) in zip((19, 12, 5), (("host", "launches"), ("stream 7", "computes"),
                                              ("stream 40", "communicates")), strict=True):  # fmt: skip
        word(axes, 1.5, y + 2.9, title, ha="left", weight="bold")
        word(axes, 1.5, y + 0.8, what, ha="left", size=8.5, color=GREY)
        if title != "host":
            box(axes, _LEFT, y, _WIDE, 4, "?", colour="white", dash=":", size=12)
    for name, (colour, hatch) in _LOOKS.items():
        phase = next(row for row in table if row.name == f"## {name} ##")
        left = _LEFT + _WIDE * (phase.start_us - step.start_us) / step.duration_us
        wide = _WIDE * phase.duration_us / step.duration_us
        box(axes, left, 19, wide, 4, name if wide > 8 else "", colour=OKABE_ITO[colour], hatch=hatch)
        if wide <= 8:
            word(axes, left + wide / 2, 25, name, size=8.5)
    axes.plot([_LEFT, _LEFT + _WIDE], [3.4, 3.4], color=INK)
    for x, text in ((_LEFT, "0"), (_LEFT + _WIDE, f"{step.duration_us / 1e3:.0f} ms")):
        word(axes, x, 1.8, text, size=9)
    return figure
