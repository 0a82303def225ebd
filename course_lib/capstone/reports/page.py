"""Pages of HTML that need nothing beside them: one style, light and dark, as wide as a phone or a screen."""

from __future__ import annotations

from functools import partial

from course_lib.base.html import templates
from course_lib.plot.dark import DARK_FILTER

__all__ = ["fill"]

fill = partial(templates(__file__), dark_filter=DARK_FILTER)
"""Fills a template of a page; its style shows pictures on a dark ground as ``plot/dark.py`` says."""
