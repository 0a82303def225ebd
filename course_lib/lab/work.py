"""What of a notebook is somebody's work: its cells, and that they were run. What JupyterLab adds by itself is none.

JupyterLab writes the kernel's version and more into a notebook that was merely opened, and saves it. So notebooks are
compared by the kinds and texts of their cells, by outputs and by execution counts, and other files byte by byte.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["is_same_work", "print_of", "was_run"]


def print_of(name: str, content: bytes) -> str:
    """A hash of what is work in the content of a file: the same for a notebook that was only looked at."""
    cells = _cells(content) if name.endswith(".ipynb") else None
    if cells is None:
        return hashlib.sha256(content).hexdigest()
    return "cells-" + hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


def is_same_work(name: str, one: bytes, other: bytes) -> bool:
    """Whether two contents of a file hold the same work."""
    return one == other or print_of(name, one) == print_of(name, other)


def was_run(content: bytes) -> bool:
    """Whether a cell of the notebook was run; also of what is no notebook that we understand."""
    cells = _cells(content)
    return cells is None or any(any(cell[2:4]) for cell in cells)


def _cells(content: bytes) -> list[Any] | None:
    """The work in a notebook; None for what is no notebook that we understand."""
    try:
        cells = json.loads(content)["cells"]
        return [
            [
                cell["cell_type"],
                _text(cell["source"]),
                *(cell.get(key) for key in ("outputs", "execution_count", "attachments")),
            ]
            for cell in cells
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _text(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)
