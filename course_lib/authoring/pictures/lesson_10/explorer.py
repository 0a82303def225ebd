"""The picture above the context explorer."""

from __future__ import annotations

from course_lib.widgets import ContextExplorer

__all__ = ["explorer"]


def explorer() -> bytes:
    """The widget's own picture, as it begins: four ranks in a ring, a quarter of the sequence each."""
    return bytes(ContextExplorer().image.value)
