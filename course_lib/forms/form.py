"""The box that every form and explorer is: keys pressed in it are its own, and it looks at home in both themes.

JupyterLab takes letters and arrow keys for commands of the notebook wherever no text is typed: ArrowDown on a menu
went to the next cell, and `b` inserted one. No option of ipywidgets ends that, so each form brings a few lines of
script with it (``keys.js``), and a style sheet (``custom.css``, as JupyterLab calls it), which `course lab` loads for
the whole page as well. Where a page runs no script, forms work as before.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from typing import Any

import ipywidgets as widgets

from course_lib.base.front_end import shown_by_server
from course_lib.forms.script import PAGE, style_sheet, with_script
from course_lib.forms.stand_in import stand_in

__all__ = ["STYLE_SHEET", "Form", "manners"]

STYLE_SHEET = PAGE / "custom.css"


@cache
def manners() -> str:
    """The style sheet as HTML, whose loading runs the script on the form that holds it."""
    return with_script("keys.js", style_sheet())


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
        return self._beside({"application/vnd.jupyter.widget-view+json": view, "text/plain": said}, said)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self._beside(dict(super()._repr_mimebundle_(**options)), repr(self))

    def _beside(self, bundle: dict[str, Any], said: str) -> dict[str, Any]:
        """The bundle and what is seen without the kernel: above it in a server's page, else a picture in it."""
        image = getattr(self, "image", None)
        if shown_by_server():
            stand_in(self, said)
        elif image is not None:
            bundle["image/png"] = base64.b64encode(image.value).decode("ascii")
        return bundle
