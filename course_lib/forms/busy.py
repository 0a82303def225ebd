"""A button that works for a while keeps the focus: it is marked as busy, and not disabled.

A browser takes the focus from a button that is disabled, and who works by keyboard then stands nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ipywidgets as widgets

__all__ = ["busy"]

_BUSY = "course-busy"  # keys.js swallows what is pressed meanwhile


@contextmanager
def busy(button: widgets.Button) -> Iterator[None]:
    """Within it the button looks busy, and pressing it once more does nothing."""
    button.add_class(_BUSY)
    try:
        yield
    finally:
        button.remove_class(_BUSY)
