"""A lesson's source becomes a notebook that stands alone: badges, a cell that installs, no file asked of beside it."""

from __future__ import annotations

import posixpath
import re

import nbformat
from nbformat import NotebookNode

from course_lib.authoring.notebooks.hosted.first_cell import first_cell
from course_lib.authoring.notebooks.hosted.repository import Repository
from course_lib.lessons.convert import learner_notebook, relinked
from course_lib.lessons.source import Source

__all__ = ["FOLDER", "hosted_notebook"]

FOLDER = "hosted"
"""Where the notebooks lie within the repository, beside ``notebooks`` and ``assets``."""

# Colab, Kaggle, JupyterLab.
_HIDDEN = {"cellView": "form", "_kg_hide-input": True, "jupyter": {"source_hidden": True}}
_LINK = re.compile(r"(?<!!)\[(?P<words>[^]]+)\]\((?P<target>[^)\s]+)\)")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|/)")


def hosted_notebook(source: Source, repository: Repository, course: str, edition: str) -> NotebookNode:
    """The learner's notebook of a lesson for hosts; a pure function of what it is given.

    ``course`` is what pip installs, of version ``edition``.
    """
    notebook = learner_notebook(source)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _alone(cell.source, repository)
    path = f"{FOLDER}/{source.info.stem}.ipynb"
    head = notebook.cells[0]
    head.source = "\n\n".join(
        [
            " ".join(badge.markdown for badge in repository.badges(path)),
            head.source,
            "*This copy of the lesson needs no other file. **Run the next cell first**: it installs the course.*"
            + _about_hosts(repository),
        ]
    )
    install = nbformat.v4.new_code_cell(
        first_cell(course, edition), id=f"lesson-{source.info.number}-install", metadata=_HIDDEN
    )
    install.metadata["tags"] = ["nbval-ignore-output"]
    notebook.cells.insert(1, install)
    # Kaggle reads its own settings from a notebook that it is given; pip needs the internet.
    notebook.metadata["kaggle"] = {
        "isInternetEnabled": True,
        "language": "python",
        "sourceType": "notebook",
    }
    return notebook


def _about_hosts(repository: Repository) -> str:
    page = repository.page_of("docs/hosted.md")
    return f" *What each host gives: [hosted notebooks]({page}).*" if page else ""


def _alone(markdown: str, repository: Repository) -> str:
    """Pictures by their address, links to other files by theirs; words alone where a file has no known address."""

    def address(target: str) -> str:
        if _ELSEWHERE.match(target):
            return target
        path, hash_sign, heading = target.partition("#")
        path = posixpath.normpath(posixpath.join("notebooks", path))  # where the learner's copies lie
        if path.startswith("assets/"):
            return f"{repository.pictures}/{path.removeprefix('assets/')}"
        folder, name = posixpath.split(path)
        if folder == "notebooks" and name.endswith(".ipynb"):
            path = f"{FOLDER}/{name}"
        return (made := repository.page_of(path)) and made + hash_sign + heading

    def words(match: re.Match[str]) -> str:
        return match[0] if address(match["target"]) else match["words"]

    fenced = re.split(r"(```.*?```|`[^`\n]*`)", markdown, flags=re.DOTALL)
    if not repository.page_of(""):
        markdown = "".join(part if index % 2 else _LINK.sub(words, part) for index, part in enumerate(fenced))
    return relinked(markdown, address)
