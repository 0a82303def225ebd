"""The whole page: a first page, a list of what is in it, and the notebooks one below the other."""

from __future__ import annotations

from course_lib.base.foreign_text import on_a_page
from course_lib.base.html import templates
from course_lib.export.bodies import body_of, style
from course_lib.export.in_page import anchor
from course_lib.export.work import LearnerWork

__all__ = ["page_of"]

_fill = templates(__file__)


def page_of(work: LearnerWork, *, on: str) -> str:
    """One HTML text of the work, dated ``on``. Nothing in it asks for another file, and no script runs."""
    from course_lib import __version__
    from course_lib.export.first_page import first_page
    from course_lib.learn.records.store import store

    names = [stem for stem, _ in work.notebooks]
    bodies, skipped = [], list(work.skipped)
    for stem, notebook in work.notebooks:
        try:
            bodies.append((anchor(stem), stem, body_of(stem, notebook, work.folder, names), ""))
        except Exception as error:  # whatever one notebook does to nbconvert, the others are to be had
            skipped.append((f"{stem}.ipynb", f"the page could not show it ({type(error).__name__}: {error})"))
            bodies.append((anchor(stem), stem, "", skipped[-1][1]))
    return on_a_page(
        _fill(
            "page.html",
            on=on,
            version=__version__,
            style=style(),
            first=first_page(store()),
            links=[(anchor(stem), _title(stem)) for stem in names],
            skipped=skipped,
            bodies=bodies,
        )
    )


def _title(stem: str) -> str:
    label, _, words = stem.partition("_")
    return f"{label} {words.replace('_', ' ')}".strip()
