"""Which files are searched, and which hold answers and are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_lib.base.paths import course_file
from course_lib.lessons.info import source_files, tour_file
from course_lib.search.code_texts import code_entries
from course_lib.search.entry import SearchEntry
from course_lib.search.page_texts import glossary_entries, lesson_entries, page_entries

__all__ = ["HOLDS_ANSWERS", "SearchFile", "search_files"]

# Below course_lib: exercises with their hints, messages, predictions and quizzes; sick jobs with what ails them; trials
# of claims; the job of lesson 14; goals of explorers; what makes pages, solved ones among them; programs to take home;
# and this search, whose docstrings name words alone.
HOLDS_ANSWERS = (
    "learn/exercises", "learn/sick", "claims", "capstone", "widgets", "authoring", "examples", "_course", "search",
)  # fmt: skip
_DOCS = ("README.md", "docs/*.md", "docs/instructor/*.md")  # docs/maintaining shows how answers are written
_GLOSSARY = "notebooks/glossary.md"


@dataclass(frozen=True)
class SearchFile:
    """A file, by its name below the course's folder, and how entries are made of its text."""

    path: Path
    name: str
    make: Callable[[str, str], list[SearchEntry]]

    @cached_property
    def text(self) -> str:
        """Its text; "" where it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    @cached_property
    def folded(self) -> str:
        """The same in small letters, to see quickly what is not in it."""
        return self.text.casefold()

    def entries(self) -> list[SearchEntry]:
        return self.make(self.text, self.name)


def search_files(root: Path) -> list[SearchFile]:
    """All that is searched of the course below ``root``, lessons first; solutions are not among them."""
    return [*_lessons(root), *_pages(root), *_library(root)]


def _lessons(root: Path) -> Iterator[SearchFile]:
    for path in (*tour_file(root), *source_files(root)):
        notebook = f"notebooks/{path.stem}.ipynb"
        yield SearchFile(path, notebook, lambda text, name: lesson_entries(text, name, Path(name).stem))


def _pages(root: Path) -> Iterator[SearchFile]:
    yield SearchFile(root / _GLOSSARY, _GLOSSARY, glossary_entries)
    for pattern in _DOCS:
        for path in sorted(root.glob(pattern)):
            yield SearchFile(path, path.relative_to(root).as_posix(), page_entries)


def _library(root: Path) -> Iterator[SearchFile]:
    library = course_file("course_lib", root)
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library).as_posix()
        if not name.startswith(tuple(f"{room}/" for room in HOLDS_ANSWERS)):
            yield SearchFile(path, f"course_lib/{name}", code_entries)
