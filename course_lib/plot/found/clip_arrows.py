"""Clipped gradients beside the limit: how long each is, and how far it points away from the true direction."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.patches import Circle

from course_lib.plot.style import OKABE_ITO, Picture, canvas, line_colour, word_colour

__all__ = ["clip_arrows"]

_LOOKS = (("blue", "-"), ("vermillion", "--"), ("green", ":"), ("purple", "-."))


def clip_arrows(arrows: Mapping[str, tuple[float, float]], *, title: str = "") -> Picture:
    """``arrows[name]``: a length in limits, and the cosine of the angle to the gradient before the clip.

    The gradient before the clip points to the right; the circle is as large as the limit. ``ValueError`` for no arrow,
    more than four, a length below 0 or none at all, and a cosine that is none.
    """
    if not 1 <= len(arrows) <= len(_LOOKS):
        raise ValueError(f"there are {len(arrows)} arrows; this picture draws one to four")
    for name, (length, cosine) in arrows.items():
        if not (math.isfinite(length) and length >= 0 and abs(cosine) <= 1 + 1e-4):
            raise ValueError(
                f"{name!r} has length {length} and cosine {cosine}; a length is at least 0, a cosine from -1 to 1"
            )
    far = 1.15 * max(1.0, *(length for length, _ in arrows.values()))
    with canvas(width=6.4, height=4.0, title=title) as (figure, axes):
        circle = {"facecolor": "#F3F3F3", "edgecolor": "#333333", "linestyle": "--"}
        axes.add_patch(Circle((0, 0), 1.0, **circle, zorder=1))
        axes.text(0, -0.72, "the limit", ha="center", va="center", fontsize=9)
        for (colour, dashes), (name, (length, cosine)) in zip(_LOOKS, arrows.items(), strict=False):
            x, y = _end(length, cosine)
            shade = line_colour(OKABE_ITO[colour])
            look = {"arrowstyle": "-|>", "color": shade, "linewidth": 2.0, "linestyle": dashes}
            axes.annotate("", (x, y), (0, 0), arrowprops={**look, "shrinkA": 0, "shrinkB": 0}, zorder=3)
            ink = word_colour(OKABE_ITO[colour])
            text = f"{name}: {length:.2f} limits"
            axes.text(x + 0.05, y + 0.08, text, ha="left", va="bottom", fontsize=9, color=ink, zorder=4)
        axes.set(xlim=(-1.2, far + 0.75 * far), ylim=(-1.2, max(1.2, far)), aspect="equal")
        axes.set_xlabel("along the gradient before the clip (limits)")
        axes.set_ylabel("across it (limits)")
    return Picture(figure, _words(arrows, title))


def _end(length: float, cosine: float) -> tuple[float, float]:
    cosine = max(-1.0, min(1.0, cosine))
    return length * cosine, length * math.sqrt(1 - cosine * cosine)


def _words(arrows: Mapping[str, tuple[float, float]], title: str) -> str:
    said = (
        f"{name} is {length:.2f} limits long, at {math.degrees(math.acos(max(-1.0, min(1.0, cosine)))):.0f} degrees"
        for name, (length, cosine) in arrows.items()
    )
    return f"{title or 'Clipped gradients'}, arrows from the middle of the limit's circle: {'; '.join(said)}."
