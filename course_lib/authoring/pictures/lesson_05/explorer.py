"""The picture above the sharded explorer."""

from __future__ import annotations

from course_lib.widgets import ShardedExplorer

__all__ = ["explorer"]


def explorer() -> bytes:
    """The widget's own picture, as it begins: DDP on four ranks."""
    return bytes(ShardedExplorer().image.value)
