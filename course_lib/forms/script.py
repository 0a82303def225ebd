"""A script that comes to a page within HTML: it runs when a style sheet beside it has been loaded.

A page that shows HTML of a notebook runs no ``<script>`` in it as a rule, and so does that of ipywidgets; most run
this. Where a page runs none, HTML must be whole without.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

__all__ = ["PAGE", "style_sheet", "with_script"]

PAGE = Path(__file__).parent / "page"


def style_sheet(*more: str) -> str:
    """Looks of forms and pictures in both themes, for a page that lacks them; and ``page/name`` for each more."""
    return "".join((PAGE / name).read_text(encoding="utf-8") for name in ("custom.css", *more))


def with_script(name: str, style: str = "") -> str:
    """The script ``page/name``, a function of the ``<style>`` element that it is called with, and the style sheet."""
    script = re.sub(r"^\s*//.*\n", "", (PAGE / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return f'<style onload="({escape(script.strip().rstrip(";"))})(this)">{style}</style>'
