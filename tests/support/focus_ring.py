"""Whether somebody who looks can see what has the focus: the pixels that change when it comes to a control."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["ring_of_focus"]

_BESIDE_PX = 8  # how far around the control is looked at
_CONTRAST = 3.0  # WCAG 2.2, 1.4.11 and 2.4.13
# Where the control that has the focus is on the page; handles of sliders and the like may be anything.
_PLACE = """(control) => {
  control.scrollIntoView({block: "center", behavior: "instant"});
  const {x, y, width, height} = control.getBoundingClientRect();
  return {x, y, width, height};
}"""


def ring_of_focus(page: Any) -> float:
    """The pixels that the focus changes by a contrast of 3:1, per pixel of the outline of the control that has it.

    A line of 1 px around the control makes 1.0. The control has the focus afterwards, too.
    """
    control = page.evaluate_handle("() => document.activeElement").as_element()
    box = control.evaluate(_PLACE)
    size = page.viewport_size
    left, top = max(0.0, box["x"] - _BESIDE_PX), max(0.0, box["y"] - _BESIDE_PX)
    right = min(size["width"], box["x"] + box["width"] + _BESIDE_PX)
    bottom = min(size["height"], box["y"] + box["height"] + _BESIDE_PX)
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    with_it = _luminance(page.screenshot(clip=clip, animations="disabled"))
    control.evaluate("(control) => control.blur()")
    without = _luminance(page.screenshot(clip=clip, animations="disabled"))
    control.focus()
    lighter, darker = np.maximum(with_it, without), np.minimum(with_it, without)
    changed = int(((lighter + 0.05) / (darker + 0.05) >= _CONTRAST).sum())
    return changed / (2 * (box["width"] + box["height"]))


def _luminance(png: bytes) -> np.ndarray:
    """Relative luminance (WCAG 2.2) of each pixel, (H, W), from 0 to 1."""
    channels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.float64) / 255  # (H, W, 3)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))
