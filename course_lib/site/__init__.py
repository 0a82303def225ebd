"""``course site``: the course as pages for reading, made of the solved notebooks, the glossary and README.

Sphinx with myst-nb and the theme furo (the extra ``site``) makes the pages, from outputs as stored: nothing is
executed, and no page asks another machine for anything. Read in this order: ``command.py`` (what is typed),
``pages.py`` (the texts that Sphinx gets), ``folds.py`` (which answers are folded), ``links.py`` (where links lead on
the site), ``settings.py`` and ``in_html.py`` (what Sphinx is told), ``build.py`` (a folder that replaces the one
before, and nothing of yours), ``look_over.py`` (``--check``).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run ``course site``; 0 well, 1 not, 2 for a command line that cannot be understood."""
    from course_lib.site.command import main as run

    return run(argv)
