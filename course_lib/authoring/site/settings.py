"""What Sphinx is told: the theme, outputs as stored, formulas without a script, nothing fetched from elsewhere."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

__all__ = ["NEEDED", "TITLE", "settings"]

NEEDED = ("sphinx", "myst_nb", "furo", "latex2mathml")
"""The modules of the extra ``site``."""

TITLE = "One Model, Many GPUs"
_STATIC = Path(__file__).parent / "static"


def settings(extra: Path, repository: str = "") -> dict[str, Any]:
    """The values of Sphinx's configuration; files below ``extra`` are copied to the site as they are."""
    return {
        "project": TITLE,
        "html_title": TITLE,
        "author": "",
        "copyright": "its authors, Apache-2.0",
        "language": "en",
        "extensions": ["myst_nb", "course_lib.authoring.site.in_html"],
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "nb_ipywidgets_js": {},  # solved notebooks hold no widgets, and these scripts come from elsewhere
        "myst_enable_extensions": ["dollarmath"],
        "myst_heading_anchors": 4,
        "suppress_warnings": ["myst.header"],  # the glossary goes from its title to words in level 3
        "html_math_renderer": "mathml",
        "html_theme": "furo",
        "html_theme_options": _theme(repository),
        "html_static_path": [str(_STATIC)],
        "html_css_files": ["site.css"],
        "html_js_files": [("search_text.js", {"defer": "defer"})],  # after Sphinx's own script of the search
        "html_search_scorer": str(_STATIC / "search_scorer.js"),
        "html_extra_path": [str(extra)],
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_use_index": False,
        "pygments_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
    }


def _theme(repository: str) -> dict[str, Any]:
    options: dict[str, Any] = {"top_of_page_buttons": [], "navigation_with_keys": True}
    if repository:
        options["footer_icons"] = [{"name": "Repository", "url": repository, "html": escape(repository), "class": ""}]
    return options
