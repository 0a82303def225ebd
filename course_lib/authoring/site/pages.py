"""What goes where: the course's own files, written as the folder of texts that Sphinx makes pages of."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import nbformat

from course_lib.authoring.site.examples import FOLDER, example_pages
from course_lib.authoring.site.lesson_page import lesson_page
from course_lib.authoring.site.links import LinkTargets
from course_lib.authoring.site.searched import library_pages
from course_lib.lessons.info import LessonInfo, lessons, tour
from course_lib.lessons.source import read_source

__all__ = ["index", "lesson_map", "places", "write_pages"]

_INSTRUCTOR = "docs/instructor"
_MAP = re.compile(r"<!-- lessons: begin -->.*<!-- lessons: end -->", re.DOTALL)


def write_pages(root: Path, texts: Path, extra: Path, repository: str = "") -> int:
    """Write the texts for Sphinx below ``texts``, and files to be copied below ``extra``; returns how many pages.

    Raises LessonError (a ValueError) for a lesson that is not built.
    """
    where, infos = places(root, repository), lessons(root)
    pages = example_pages(root)
    for origin, page in where.pages.items():
        if page.endswith(".md") and (root / origin).is_file() and page != "index.md":
            pages[page] = where.moved(_text(root, origin, infos), origin, page)
    searched = library_pages(root) if "library.md" in pages else {}
    pages["index.md"] = index(root, infos, where, sorted(pages))
    for page, text in (pages | searched).items():
        _write(texts / page, text)
    opening = tour(root)
    for info in (*opening, *infos):
        notebook = f"{info.stem}.ipynb"
        source = read_source(root / "notebooks" / "src" / f"{info.stem}.py")
        made = lesson_page(source, root / "notebooks" / "solutions" / notebook, where)
        _write(texts / "lessons" / notebook, nbformat.writes(made))
        (extra / "files").mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "notebooks" / notebook, extra / "files" / notebook)
    for origin in where.pages:
        if origin.endswith(".png"):
            (texts / origin).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / origin, texts / origin)
    return len(pages) + len(searched) + len(opening) + len(infos)


def places(root: Path, repository: str = "") -> LinkTargets:
    """Where each file of the course is on the site; a notebook and its solved copy are one page."""
    pages = {"README.md": "index.md"}
    for info in (*tour(root), *lessons(root)):
        page = f"lessons/{info.stem}.ipynb"
        pages |= {f"notebooks/{info.stem}.ipynb": page, f"notebooks/solutions/{info.stem}.ipynb": page}
    known = {"notebooks/glossary.md": "glossary.md", "CONTRIBUTING.md": "contributing.md"}
    pages |= {origin: page for origin, page in known.items() if (root / origin).exists()}
    pages |= {f"docs/{path.name}": path.name for path in sorted((root / "docs").glob("*.md"))}
    for path in sorted((root / _INSTRUCTOR).rglob("*.md")):
        name = path.relative_to(root / _INSTRUCTOR).as_posix()
        pages[f"{_INSTRUCTOR}/{name}"] = f"instructor/{name}"
    if example_pages(root):
        pages[FOLDER] = "examples/index.md"
    for path in sorted((root / "assets").rglob("*.png")):
        pages[path.relative_to(root).as_posix()] = path.relative_to(root).as_posix()
    return LinkTargets(pages, repository.rstrip("/"), root)


def index(root: Path, infos: list[LessonInfo], where: LinkTargets, others: list[str]) -> str:
    """The first page: README, and the navigation of the whole site."""
    return (
        where.moved(_text(root, "README.md", infos), "README.md", "index.md")
        + "\n"
        + _navigation(infos, others, tour(root))
    )


def _text(root: Path, origin: str, infos: list[LessonInfo]) -> str:
    """A page's text, with its map of lessons, where it has one, made for any width."""
    text = (root / origin).read_text(encoding="utf-8")
    return _MAP.sub(lambda _: lesson_map(infos, "../" * origin.count("/")), text)


def lesson_map(infos: list[LessonInfo], up: str = "") -> str:
    """The lessons as headings and lists: a table of whole sentences would not fit a phone. ``up`` leads to the root."""
    lines = []
    for lesson in _by_lesson(infos):
        lines.append(f"\n### {lesson[0].number} · {lesson[0].lesson_title}\n")
        for info in lesson:
            facts = f"{info.minutes_text} minutes · difficulty {info.difficulty} of 5 · needs: {info.needs}"
            link = f"[{_name(info)}]({up}notebooks/{info.stem}.ipynb)"
            lines.append(f"- **{link}** · {facts}<br>{' '.join(info.promise.split())}")
    return "\n".join(lines)


def _by_lesson(infos: list[LessonInfo]) -> list[list[LessonInfo]]:
    return [list(parts) for _, parts in itertools.groupby(infos, key=lambda info: info.number)]


def _name(info: LessonInfo) -> str:
    return f"{info.part} · {info.title.partition(': ')[2]}" if info.part else info.title


def _navigation(infos: list[LessonInfo], others: list[str], opening: list[LessonInfo]) -> str:
    """Toctrees in the order of reading: the tour, lessons, then words, programs, notes for instructors, the house."""
    trees = [("Ten minutes", [f"{info.title} <lessons/{info.stem}>" for info in opening])]
    for lesson in _by_lesson(infos):
        entries = [
            f"{_name(info)} ({info.minutes_text} min, {info.difficulty}/5) <lessons/{info.stem}>" for info in lesson
        ]
        trees.append((f"{lesson[0].number} · {lesson[0].lesson_title}", entries))
    names = [page.removesuffix(".md") for page in others]
    instructor = [name for name in names if name.startswith("instructor/")]
    first = [name for name in instructor if name.lower().endswith(("/readme", "/index"))]
    trees.append(("For instructors", first + [name for name in instructor if name not in first]))
    examples = sorted((name for name in names if name.startswith("examples/")), key=lambda n: "/index" not in n)
    trees.append(("Beside the lessons", [n for n in names if "/" not in n and n != "contributing"] + examples))
    trees.append(("The house", [name for name in names if name == "contributing"]))
    return "\n".join(_toctree(caption, entries) for caption, entries in trees if entries)


def _toctree(caption: str, entries: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
