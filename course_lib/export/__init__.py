"""``course export``: a learner's work as one page of HTML that needs nothing beside it.

``command.py`` is the command, ``work.py`` finds the notebooks that were worked on, ``bodies.py`` makes HTML of them by
nbconvert, ``safe.py`` lets through what neither fetches nor leads away, ``in_page.py`` sets links and pictures,
``formulas.py`` draws the formulas that nbconvert would leave to a script from the network, ``first_page.py``
tells of progress, and ``page.py`` puts it all together.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Write the page; 0 when it is there, 1 where it cannot be written, 2 for what cannot be asked."""
    from course_lib.export.command import main as run

    return run(argv)
