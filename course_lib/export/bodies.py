"""Notebooks as parts of one page: nbconvert's HTML of each, with names and links of its own, and its style once."""

from __future__ import annotations

import base64
import copy
import mimetypes
import os
import re
from collections.abc import Collection
from functools import lru_cache
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from course_lib.export.formulas import formula
from course_lib.paths import project_root

__all__ = ["anchor", "body_of", "style"]

_SCRIPTS = ("application/javascript", "text/javascript", "application/vnd.jupyter.widget-view+json")
_LINK = re.compile(r'(<a\b[^>]*?\s)href="([^"]*)"')
_IMAGE = re.compile(r"<img\b[^>]*>")
_SRC = re.compile(r'\ssrc="([^"]*)"')
_ALT = re.compile(r'\salt="([^"]*)"')
_MOST_BYTES = 1 << 24
_ELSEWHERE = re.compile(r"^(https?|mailto):", re.IGNORECASE)


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
        cell, resources = context.get("cell", {}), context.get("resources", {})
        renderer = _Renderer(
            escape=False,
            attachments=cell.get("attachments", {}),
            embed_images=self.embed_images,
            path=resources.get("metadata", {}).get("path", ""),
        )
        return MarkdownWithMath(renderer=renderer).render(source)


def anchor(stem: str) -> str:
    """The name of a notebook's part within the page."""
    return "nb-" + re.sub(r"\W+", "-", stem)


def body_of(stem: str, notebook: NotebookNode, folder: Path, others: Collection[str]) -> str:
    """A notebook as HTML. Links to ``others`` lead to their parts; links to files that are not here lead nowhere."""
    html = _converted(_as_text(notebook), folder)
    found = re.search(r"<main>(.*)</main>", html, re.DOTALL)
    inner = found.group(1) if found else html
    inner = re.sub(r"<script\b.*?</script>", "", inner, flags=re.DOTALL | re.IGNORECASE)
    inner = _IMAGE.sub(lambda found: _within(found.group(0), folder), inner)
    # the key Tab goes to the code, which is what can be moved sideways, and not also to the box around it
    inner = inner.replace('jp-Cell-inputWrapper" tabindex="0"', 'jp-Cell-inputWrapper"')
    inner = inner.replace('jp-InputArea-editor"', 'jp-InputArea-editor" tabindex="0"')
    own = anchor(stem)
    inner = re.sub(r'(<[^<>]*?\s)id="([^"]+)"', rf'\1id="{own}--\2"', inner)
    inner = _LINK.sub(lambda found: found.group(1) + _target(found.group(2), own, others), inner)
    return f"<section id='{own}' aria-label='{escape(stem, quote=True)}'>{inner}</section>"


def _target(link: str, own: str, others: Collection[str]) -> str:
    """The ``href`` in the page of a link in a notebook; none for a file that is not within it."""
    if link.startswith("#"):
        return f'href="#{own}--{link[1:]}"'
    if _ELSEWHERE.match(link):
        return f'href="{link}" rel="noreferrer"'
    stem = Path(link.partition("#")[0]).stem
    return f'href="#{anchor(stem)}"' if stem in others and ".ipynb" in link and "/" not in link else ""


def _within(tag: str, folder: Path) -> str:
    """An ``img`` with its file in it. Of a file that is not there, or not the course's, the words remain."""
    source = _SRC.search(tag)
    if source is None or source.group(1).startswith("data:"):
        return tag
    file = Path(os.path.abspath(folder / unquote(unescape(source.group(1)).partition("?")[0])))
    kind = mimetypes.guess_type(file.name)[0] or ""
    # nbconvert takes pictures from the notebook's own folder alone; the course's lie beside it
    is_ours = any(file.is_relative_to(base) for base in (folder.absolute().parent, project_root()))
    if is_ours and kind.startswith("image/") and file.is_file() and file.stat().st_size <= _MOST_BYTES:
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        return tag.replace(source.group(0), f' src="data:{kind};base64,{data}"')
    words = _ALT.search(tag)
    return (
        f"<em>(A picture that is not in this page: {words.group(1) if words else ''} {source.group(1)})</em>"
    )


def _as_text(notebook: NotebookNode) -> NotebookNode:
    """A copy whose outputs are pictures and text: what needs a script is shown by the text that stands beside it."""
    bare = copy.deepcopy(notebook)
    bare.metadata.pop("widgets", None)
    for cell in bare.cells:
        for output in cell.get("outputs", ()) if cell.cell_type == "code" else ():
            for kind in _SCRIPTS:
                output.get("data", {}).pop(kind, None)
    return bare


@lru_cache(maxsize=1)
def _exporter() -> _Exporter:
    return _Exporter(template_name="lab", embed_images=True, theme="light", exclude_input_prompt=False)


def _converted(notebook: NotebookNode, folder: Path) -> str:
    html, _ = _exporter().from_notebook_node(notebook, resources={"metadata": {"path": str(folder)}})
    return str(html)


def style() -> str:
    """The style sheets that the parts of ``body_of`` need."""
    html = _converted(nbformat.v4.new_notebook(), Path("."))
    return "\n".join(re.findall(r"<style[^>]*>.*?</style>", html, re.DOTALL))
