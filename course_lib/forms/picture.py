"""The picture of an explorer: PNG bytes that a control replaces, with a text for those who cannot see it."""

from __future__ import annotations

import ipywidgets as widgets
from traitlets import Unicode

__all__ = ["ALT", "picture_box"]

ALT = "A picture; the lines below say the same in words."


class _Titled(widgets.Image):
    """An image that may have a tooltip: the page of ipywidgets 8 shows it only beside a description, and an image
    with the one and not the other is not shown at all.
    """

    description = Unicode("").tag(sync=True)


def picture_box(*, width: str | None = None) -> widgets.Image:
    """An empty picture. Its text is the same all the time, for the lines below it are read out at every change.

    ipywidgets knows no text for an image, but a tooltip, which keys.js makes one of.
    """
    return _Titled(format="png", tooltip=ALT, layout=widgets.Layout(width=width, max_width="100%"))
