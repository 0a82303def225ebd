"""Pictures in a dark theme: light is turned to dark, and a colour keeps its hue.

Every picture is drawn once, on white, and the page turns it round with a filter of CSS, so that a figure of
yesterday, a learner's own and those of a notebook that nobody has run follow the theme as well. A pixel's channels c
(0 to 1) become

    floor + (1 - floor) * (1 - L + CHROMA * (c - L)) ** GAMMA        L: the sum of WEIGHTS * c

White becomes the ground of JupyterLab's dark theme, black becomes white, a grey stays a grey. The constants are chosen
so that letters keep 4.5 to 1 on every box of the palette. Light yellow becomes a dark olive that its
outline (``style.OUTLINE``) sets off from the ground. No text may call a thing by white, black or yellow.
"""

from __future__ import annotations

from urllib.parse import quote

import numpy as np
from matplotlib.colors import to_hex, to_rgb

__all__ = ["DARK_FILTER", "GROUND", "in_the_dark"]

GROUND = "#111111"  # what white becomes: --jp-layout-color0 of JupyterLab's dark theme
WEIGHTS = (0.22, 0.77, 0.01)  # of red, green and blue in a colour's lightness
CHROMA = 0.6  # how much of a colour's distance from grey is kept
GAMMA = 1.45


def in_the_dark(colour: str) -> str:
    """What the filter makes of a colour, as ``#rrggbb``. ValueError where matplotlib does not know the colour."""
    channels = np.array(to_rgb(colour))
    lightness = channels @ np.array(WEIGHTS)
    floor = to_rgb(GROUND)[0]
    turned = np.clip(1 - lightness + CHROMA * (channels - lightness), 0, 1)
    red, green, blue = floor + (1 - floor) * turned**GAMMA
    return to_hex((red, green, blue))


def _filter() -> str:
    """The same as an SVG filter within a ``url()``: a browser that cannot read it shows the picture as it is."""
    rows = [
        [CHROMA * (column == row) - (1 + CHROMA) * weight for column, weight in enumerate(WEIGHTS)] + [0, 1]
        for row in range(3)
    ]
    matrix = " ".join(f"{value:g}" for row in [*rows, [0, 0, 0, 1, 0]] for value in row)
    floor = to_rgb(GROUND)[0]
    curve = "".join(
        f"<feFunc{channel} type='gamma' amplitude='{1 - floor:.4f}' exponent='{GAMMA}' offset='{floor:.4f}'/>"
        for channel in "RGB"
    )
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg'><filter id='dark' color-interpolation-filters='sRGB'>"
        f"<feColorMatrix values='{matrix}'/><feComponentTransfer>{curve}</feComponentTransfer></filter></svg>"
    )
    return 'url("data:image/svg+xml,' + quote(svg, safe=" =/:.-") + '#dark")'


DARK_FILTER = _filter()
"""The value of ``filter`` in CSS; the style sheets hold a copy of it."""
