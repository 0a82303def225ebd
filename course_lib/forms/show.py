"""How things are shown: a panel that reads well in light and dark, with words and a sign beside each
colour.
"""

from __future__ import annotations

import html
import re
import sys
from typing import Any

from course_lib.base.html import templates

__all__ = ["Shown", "escape", "panel", "paragraph", "show", "table", "unbroken"]

# The colour of the left edge; the words say the same. JupyterLab takes the names of a theme's colours out of a notebook
# that it does not trust; these stay, and stand out from white and from a dark ground.
_EDGE = {"good": "#009e73", "bad": "#d55e00", "info": "#0072b2", "quiet": "#888"}
_EMPHASIS = re.compile(r"(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])")


class Shown:
    """Something that is displayed when it is made and, as the last line of that same cell, not a second
    time.
    """

    _shown_in: Any = None

    def _html(self) -> str:
        raise NotImplementedError

    def _bundle(self) -> dict[str, Any]:
        return {"text/html": self._html(), "text/plain": str(self)}

    def _ipython_display_(self) -> None:
        if self._shown_in is None or self._shown_in != _cell_run():
            show(self)


def show(thing: Shown) -> None:
    """Display it now: rich in a notebook, as its text elsewhere."""
    run = _cell_run()
    if run is None:
        print(thing)
        return
    from IPython.display import display

    display(thing._bundle(), raw=True)
    object.__setattr__(thing, "_shown_in", run)  # also where the thing is a frozen dataclass


def _cell_run() -> str | None:
    """Which run of a cell this is, by the request that asked for it; None outside a notebook kernel.

    The cell's number would not do: a test runner executes every cell under the same one.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return str(shell.get_parent().get("header", {}).get("msg_id", shell.execution_count))


def escape(text: object) -> str:
    """Text for HTML, with `code` between backquotes and *emphasis* between stars."""
    parts = html.escape(str(text), quote=False).split("`")
    if len(parts) % 2 == 0:  # an odd backquote stays as it is
        return "`".join(parts)
    words = [_EMPHASIS.sub(r"<em>\1</em>", part) for part in parts]
    return "".join(f"<code>{parts[index]}</code>" if index % 2 else word for index, word in enumerate(words))


_fill = templates(__file__, words=escape)


def paragraph(text: object) -> str:
    return f"<p style='margin:0.2em 0'>{escape(text)}</p>"


def panel(kind: str, title: str, body: str) -> str:
    """A box: ``kind`` is "good", "bad", "info" or "quiet"; ``title`` is text, ``body`` is HTML."""
    return _fill("panel.html", edge=_EDGE[kind], title=title, body=body)


def unbroken(text: str) -> str:
    """The text on one line: a table does not break it between words, nor between signs that stand together."""
    return re.sub(r"(?<=[^\w\s])(?=[^\w\s])", "\u2060", text.replace(" ", "\u00a0"))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of texts, the first column being the name of its row. A column may go without a name."""
    return _fill("table.html", head=head, rows=rows)
