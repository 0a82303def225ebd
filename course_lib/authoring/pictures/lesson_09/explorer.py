"""The picture above the mesh explorer."""

from __future__ import annotations

from course_lib.widgets import MeshExplorer

__all__ = ["explorer"]


def explorer() -> bytes:
    """The widget's own picture, as it begins: four replicas."""
    return bytes(MeshExplorer().image.value)
