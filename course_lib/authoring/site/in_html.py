"""What Sphinx's pages need beside the theme: formulas as MathML, and folds that say aloud what they hold.

MathML is made when the site is built (from LaTeX, by latex2mathml), and browsers draw it themselves: no script, no font
and no network when a page is opened.
"""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

__all__ = ["setup"]

# myst-nb gives every fold this one name, which a screen reader says in place of the words on the screen.
_NAMELESS = '<summary aria-label="Toggle hidden content">'


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the renderer ``mathml`` and mend the folds; Sphinx calls this."""
    app.setup_extension("furo")  # a theme is loaded later than its settings are looked at
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("html-page-context", _name_folds)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _name_folds(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = context["body"].replace(_NAMELESS, "<summary>")


def _mathml(node: nodes.Element, display: str) -> str:
    latex = node.astext()
    try:
        return convert(latex, display=display)
    except Exception as error:  # the package raises many kinds for text that is no LaTeX
        logging.getLogger(__name__).warning("this formula cannot be read: %s (%r)", latex, error, location=node)
        return f"<code>{escape(latex)}</code>"


def _inline(page: Any, node: nodes.Element) -> None:
    page.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _display(page: Any, node: nodes.Element) -> None:
    page.body.append(f'<div class="formula">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode
