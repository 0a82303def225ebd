"""Notebooks as parts of one page: nbconvert's HTML of each, with names and links of its own, and its style once."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from course_lib.base.front_end import PICTURES, STAND_IN
from course_lib.export.formulas import formula
from course_lib.export.in_page import InPage
from course_lib.export.safe import fragment, gate

__all__ = ["body_of", "style"]

_DIAGRAM = "text/vnd.mermaid"
_SCRIPTS = ("application/javascript", "text/javascript", "application/vnd.jupyter.widget-view+json")


class _Renderer(IPythonRenderer):
    """Markdown in which formulas are pictures."""

    def block_math(self, body: str) -> str:
        return formula(body, is_block=True)

    def inline_math(self, body: str) -> str:
        return formula(body)

    def latex_environment(self, name: str, body: str) -> str:
        return formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", is_block=True)


class _Exporter(HTMLExporter):
    """nbconvert's page of a notebook with pictures in it."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        # Files are not nbconvert's to read (embed_images): `InPage` takes them, the course's alone.
        renderer = _Renderer(escape=False, attachments=context.get("cell", {}).get("attachments", {}))
        return fragment(MarkdownWithMath(renderer=renderer).render(source))


def body_of(stem: str, notebook: NotebookNode, folder: Path, others: Collection[str]) -> str:
    """A notebook as HTML, for a section of its own.

    Links to ``others`` lead to their parts; links to files that are not here lead nowhere.
    """
    html = _converted(_as_text(notebook))
    found = re.search(r"<main>(.*)</main>", html, re.DOTALL)
    return gate(found.group(1) if found else html, InPage(stem, folder, others))


def _as_text(notebook: NotebookNode) -> NotebookNode:
    """A copy whose outputs are pictures and text: what needs a script is shown by the text that stands beside it."""
    bare = copy.deepcopy(notebook)
    bare.metadata.pop("widgets", None)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _is_for_readers(output)]
        for output in cell.get("outputs", ()) if cell.cell_type == "code" else ():
            for kind in _SCRIPTS:
                output.get("data", {}).pop(kind, None)
            if _DIAGRAM in output.get("data", {}):  # nbconvert would put it in as it is
                output.data.setdefault("text/plain", str(output.data.pop(_DIAGRAM)))
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = fragment(str(output.data["text/html"]))
    return bare


def _is_for_readers(output: NotebookNode) -> bool:
    """Whether an output says something beyond the front end; what stands in for a form of words has these below it.

    The picture that stands in for an explorer stays, without the sentence that asks to run its cell.
    """
    html = str(output.get("data", {}).get("text/html", ""))
    if STAND_IN in html and "<img " in html:
        output.data["text/html"] = re.sub(r"<p [^>]*><strong>.*?</strong></p>", "", html, count=1)
        return True
    return not (f"class='{STAND_IN}'" in html or f"class='{PICTURES}'" in html)


@lru_cache(maxsize=1)
def _exporter() -> _Exporter:
    return _Exporter(template_name="lab", theme="light", exclude_input_prompt=False)


def _converted(notebook: NotebookNode) -> str:
    html, _ = _exporter().from_notebook_node(notebook)
    return str(html)


def style() -> str:
    """The style sheets that the parts of ``body_of`` need."""
    html = _converted(nbformat.v4.new_notebook())
    return "\n".join(re.findall(r"<style[^>]*>.*?</style>", html, re.DOTALL))
