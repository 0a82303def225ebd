"""What a notebook hears of its nodes when they cannot be used: a sentence, in place of the library's own stack."""

from __future__ import annotations

__all__ = ["NodeLost", "NodesUnlike"]


class _ShownAsText(RuntimeError):
    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class NodeLost(_ShownAsText):
    """A node does not answer, or not any more."""


class NodesUnlike(_ShownAsText):
    """Nodes that cannot work together, or with this notebook: another Python, PyTorch or course."""
