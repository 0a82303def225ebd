"""``course site``: the course as pages for reading, made of the solved notebooks, the glossary and README.

Sphinx with myst-nb and the theme furo (the extra ``site``) makes the pages, from outputs as stored: nothing is
executed, and no page asks another machine for anything. Read in this order: ``command.py`` (what is typed),
``pages.py`` (the texts that Sphinx gets), ``folds.py`` (which answers are folded), ``links.py`` (where links lead on
the site), ``settings.py`` and ``in_html.py`` (what Sphinx is told), ``build.py`` (a folder that replaces the one
before, and nothing of yours), ``look_over.py`` (``--check``).

In the order to read:

- ``examples.py``: pages of the programs to take home
- ``folds.py``: which cells of a lesson a reader opens by hand
- ``in_html.py``: what Sphinx's pages need beside the theme
- ``links.py``: where the links of a text lead once it is a page
- ``lesson_page.py``: the page of one lesson part
- ``look_over.py``: look a built site over
- ``pages.py``: what goes where: the course's own files, written as the folder of texts that Sphinx makes pages of
- ``searched.py``: pages that only the search leads to: docstrings and messages of the library
- ``settings.py``: what Sphinx is told: the theme, outputs as stored, formulas without a script, nothing fetched from
  elsewhere
- ``build.py``: from the course's files to a folder that holds the site, and nothing of yours lost on the way
- ``command.py``: what is typed: ``course site [--out DIR] [--check] [--repository ADDRESS]``
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run ``course site``; 0 well, 1 not, 2 for a command line that cannot be understood."""
    from course_lib.authoring.site.command import main as run

    return run(argv)
