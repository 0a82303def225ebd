"""HTML from templates: Jinja2 files in a folder ``templates`` beside the module that fills them, every text escaped.

A template is written on as many lines as read well: line breaks and indentation are not in what it makes. Jinja2 is
imported when the first template is filled, so that neither ranks nor strategies load it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["templates"]


def templates(module: str, **filters: Callable[..., str]) -> Callable[..., str]:
    """What fills the templates beside a module: ``fill = templates(__file__)``, then ``fill("panel.html", title=t)``.

    Whatever a template is given is text, and is escaped as ``html.escape`` does it; ``|between_tags`` leaves quotes as
    they are, and what is HTML already goes through ``|safe``. ``filters`` make HTML of text, by their names.
    """
    folder = Path(module).parent / "templates"

    @cache
    def environment() -> Any:
        return _environment(folder, filters)

    def fill(template: str, **values: object) -> str:
        return str(environment().get_template(template).render(values))

    return fill


def _environment(folder: Path, filters: dict[str, Callable[..., str]]) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from jinja2.ext import Extension
    from markupsafe import Markup

    class OneLine(Extension):
        """Joins the lines of a template; what it is given keeps its own."""

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            is_page = name is not None and name.endswith(".html")
            return re.sub(r"\n\s*", "", source) if is_page else source

    def escaped(value: object) -> object:
        """As Python's own library escapes, so that a text is the same in every page; markupsafe has other numbers.

        A learner's own class may have ``__html__``: only what a template or a filter made is taken as HTML.
        """
        return value if type(value) is Markup else Markup(html.escape(str(value)))

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        extensions=[OneLine],
        finalize=escaped,
    )
    between = {"between_tags": lambda text: html.escape(str(text), quote=False)}
    made = {name: (lambda *words, make=make: Markup(make(*words))) for name, make in (between | filters).items()}
    environment.filters.update(made)
    return environment
