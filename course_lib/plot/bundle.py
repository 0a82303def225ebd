"""A picture as a notebook's page takes it: PNG, its size, and the text that says what it shows."""

from __future__ import annotations

import base64
from typing import Any

from course_lib.base.front_end import knows_no_texts, picture_tag

__all__ = ["bundle_of"]


def bundle_of(png: bytes, alt: str, size: tuple[int, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Content and metadata of a picture of ``size``, width and height in pixels of the screen.

    JupyterLab shows a PNG without its text, which `course lab` gives it. Elsewhere the PNG comes as HTML too.
    """
    width, height = size
    content = {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": alt}
    if knows_no_texts():
        content["text/html"] = picture_tag(png, alt, width=f"{width}px")
    return content, {"image/png": {"width": width, "height": height, "alt": alt}}
