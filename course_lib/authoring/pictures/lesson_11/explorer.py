"""The picture above the plan explorer."""

from __future__ import annotations

from course_lib.widgets import PlanExplorer

__all__ = ["explorer"]


def explorer() -> bytes:
    """The widget's own picture, as it begins: one model on eight GPUs, and a layout that nobody asked for."""
    return bytes(PlanExplorer().image.value)
