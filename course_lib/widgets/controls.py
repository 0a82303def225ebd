"""The controls of the explorers, each with its name in front, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets

from course_lib.base.html import templates

__all__ = ["dropdown", "fill", "number", "status"]

fill = templates(__file__)
"""Fills a template of the explorers."""


def dropdown(name: str, options: Iterable[Any], start: object, *, width: str = "15em") -> widgets.Dropdown:
    """One of some options, each a value or a pair of its word and its value."""
    style, layout = {"description_width": "initial"}, {"width": width}
    return widgets.Dropdown(options=list(options), value=start, description=name, style=style, layout=layout)


def number(name: str, start: int, bounds: tuple[int, int], *, width: str) -> widgets.BoundedIntText:
    """A whole number from the first bound to the second; one beyond them becomes the nearer of the two."""
    style, layout = {"description_width": "initial"}, {"width": width}
    low, high = bounds
    return widgets.BoundedIntText(start, min=low, max=high, description=name, style=style, layout=layout)


def status(*lines: str) -> str:
    """Lines of plain text as HTML that a screen reader tells when it changes."""
    return fill("status.html", lines=lines)
