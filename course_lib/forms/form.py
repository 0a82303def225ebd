"""The box that every form and explorer is: keys pressed in it are its own, and it looks at home in both themes.

JupyterLab takes letters and arrow keys for commands of the notebook wherever no text is typed: ArrowDown on a menu
went to the next cell, and `b` inserted one. No option of ipywidgets ends that, so each form brings a few lines of
script with it (``keys.js``), and a style sheet (``custom.css``, as JupyterLab calls it), which `course lab` loads for
the whole page as well. Where a page runs no script, forms work as before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

__all__ = ["STYLE_SHEET", "Form", "manners"]

STYLE_SHEET = Path(__file__).parent / "page" / "custom.css"
_SCRIPT = STYLE_SHEET.parent / "keys.js"


@cache
def manners() -> str:
    """The style sheet as HTML, whose loading runs the script on the form that holds it."""
    script = re.sub(r"^\s*//.*\n", "", _SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    style = STYLE_SHEET.read_text(encoding="utf-8")
    return f'<style onload="({escape(script.strip().rstrip(";"))})(this)">{style}</style>'


class Form(widgets.VBox):
    """A column of widgets. Letters and arrows pressed in it stay in it; Shift+Enter goes on to the next cell."""

    def __init__(self, parts: Sequence[widgets.Widget]) -> None:
        bearing = widgets.HTML(manners(), layout={"display": "none"})
        super().__init__([*parts, bearing])
        self.add_class("course-form")

    def bundle(self, said: str) -> dict[str, Any]:
        """What a page shows of this form, by MIME type; ``said`` stands where there are no widgets.

        ipywidgets 7, which Colab has, displays by another method than ipywidgets 8; the type and its content are one.
        """
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, "text/plain": said}
