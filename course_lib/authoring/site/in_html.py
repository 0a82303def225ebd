"""What Sphinx's pages need beside the theme: formulas as MathML, folds that say aloud what they hold, no answer found.

Sphinx's search sees a lesson without its code cells, which hold solutions and what was told.

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
_UNSEARCHED = ("instructor/lessons/", "examples/")  # what `course find` leaves out as well
_NAMELESS = '<summary aria-label="Toggle hidden content">'


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the renderer ``mathml`` and mend the folds; Sphinx calls this."""
    app.setup_extension("furo")  # a theme is loaded later than its settings are looked at
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("html-page-context", _name_folds)
    app.connect("builder-inited", _keep_answers_out)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _name_folds(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = context["body"].replace(_NAMELESS, "<summary>")


def _keep_answers_out(app: Sphinx) -> None:
    """Have Sphinx make its index of what may be found alone; Sphinx calls this when its builder is there."""
    builder: Any = app.builder
    index_page = builder.index_page

    def index_without_answers(name: str, doctree: nodes.document, title: str) -> None:
        if not name.startswith(_UNSEARCHED):
            index_page(name, _without_cells(doctree), title)

    builder.index_page = index_without_answers


def _without_cells(doctree: nodes.document) -> nodes.document:
    """The page without its code cells and what they printed, as ``course find`` reads a lesson."""
    if not any(map(_is_cell, doctree.findall(nodes.container))):
        return doctree
    bare = doctree.deepcopy()
    for node in [node for node in bare.findall(nodes.container) if _is_cell(node)]:
        if node.parent is not None:
            node.parent.remove(node)
    return bare


def _is_cell(node: nodes.Element) -> bool:
    return node.get("nb_element") == "cell_code"


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
