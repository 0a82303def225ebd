"""The pictures of a lesson that lies alone: its page looks for ``../assets`` in vain, and the package has them.

A lesson sent by mail, opened in a folder of one's own, or in a JupyterLab that was started beside it, shows the text
of each picture only. So the first import in a notebook looks whether the pictures can be found. Where not, it shows
them below that cell, folded, and a script puts each where the text speaks of it. A page that runs no script has them
below the cell.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from course_lib.base.front_end import (
    PICTURES,
    picture_tag,
    running_cell,
    server_root,
    was_installed_by_notebook,
)
from course_lib.base.html import templates
from course_lib.base.paths import project_root
from course_lib.lessons.info import source_files

__all__ = ["pictures_of", "show_what_is_not_beside"]

_fill = templates(__file__)
_PICTURE = re.compile(r"!\[([^]]*)\]\(\.\./(assets/[^)\s]+)\)")
_FIRST_CELL = re.compile(r"^# %%(?: tags=\S+)?\n(.*?)(?=^# %%|\Z)", re.MULTILINE | re.DOTALL)


def pictures_of(source: str) -> dict[str, str]:
    """The pictures that a lesson's source shows, in order: their text by their name, as ``assets/00_loop.png``."""
    text = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
    return {name: " ".join(alt.split()) for alt, name in _PICTURE.findall(text)}


def show_what_is_not_beside() -> None:
    """In the first cell of a lesson: show the pictures that its page cannot find; nothing where it finds them."""
    if os.environ.get("COURSE_PICTURES", "").strip().lower() == "off" or was_installed_by_notebook():
        return
    cell = running_cell()
    source = _lesson_of(cell) if cell else ""
    lost = {name: alt for name, alt in pictures_of(source).items() if not _is_beside(name)}
    here = {name: alt for name, alt in lost.items() if (project_root() / name).is_file()}
    if here:
        from IPython.display import display

        display({"text/html": _page(here), "text/plain": _text(here)}, raw=True)


def _lesson_of(cell: str) -> str:
    """The source whose first code cell is this one, perhaps with lines more; "" for none."""
    for path in source_files(project_root()):
        source = path.read_text(encoding="utf-8")
        first = _FIRST_CELL.search(source)
        if first and first[1].strip() in cell:
            return source
    return ""


def _is_beside(name: str) -> bool:
    """Whether the page of a notebook in this folder finds the picture; a solved copy lies one folder deeper."""
    here = Path.cwd()
    root = server_root()
    return any((up / name).is_file() and (root is None or up.is_relative_to(root)) for up in here.parents[:2])


def _text(pictures: dict[str, str]) -> str:
    where = project_root() / "assets"
    return f"Pictures of this lesson do not lie beside the notebook. They are in {where}: {', '.join(pictures)}."


def _page(pictures: dict[str, str]) -> str:
    from course_lib.forms.script import style_sheet, with_script  # ipywidgets, only where it is shown

    said = "The pictures of this lesson do not lie beside it. Where the text shows none, open them here."
    images = [picture_tag((project_root() / name).read_bytes(), alt, name=name) for name, alt in pictures.items()]
    return _fill(
        "pictures.html",
        class_name=PICTURES,
        said=said,
        pictures=list(zip(images, pictures.values(), strict=True)),
        script=with_script("pictures.js", style_sheet()),
    )
