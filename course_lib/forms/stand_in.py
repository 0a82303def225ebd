"""What a page shows in place of a form whose kernel is gone: a sentence, and the form's last picture.

A notebook keeps of a widget its number alone. When it is opened again with a fresh kernel, JupyterLab and Notebook 7
write "Error displaying widget: model not found", whatever else the output holds. So there a form brings an output of
its own with it, above it, which a style sheet hides for as long as the form is there (``page/stand_in.css``). A page
that runs no style sheets of a notebook, as one that is not trusted, shows it at once. What other front ends do with a
lost widget is theirs: they find the picture and the text beside it.
"""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any

from course_lib.base.front_end import STAND_IN, at_cell_ends, picture_tag
from course_lib.base.html import templates
from course_lib.forms.script import style_sheet

__all__ = ["GONE", "stand_in"]

_fill = templates(__file__)
GONE = "This form no longer works, because the kernel was restarted. Run its cell again."


@cache
def _style() -> str:
    return style_sheet("stand_in.css")


def _content(said: str, image: Any) -> dict[str, str]:
    shown = "" if image is None else picture_tag(image.value, said, width=image.layout.width or "")
    html = _fill("stand_in.html", style=_style(), class_name=STAND_IN, sentence=GONE, shown=shown, said=said)
    return {"text/html": html, "text/plain": GONE}


def stand_in(form: Any, said: str) -> None:
    """Show, above the form that a cell is about to show, what stands in for it; ``said`` is the form as text.

    The picture follows that of the form whenever a cell has ended, so that what is saved is nearly the last one.
    """
    from IPython.display import display

    image = getattr(form, "image", None)
    handle = display(_content(said, image), raw=True, display_id=uuid.uuid4().hex)
    if image is None or handle is None:
        return
    shown = image.value

    def follow() -> None:
        nonlocal shown
        if image.value != shown:
            shown = image.value
            handle.update(_content(repr(form), image), raw=True)

    at_cell_ends(follow)
