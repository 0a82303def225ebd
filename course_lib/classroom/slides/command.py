"""``course class slides``: slides of a class plan for the projector, and notes for the speaker on another page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.base.foreign_text import one_line
from course_lib.base.paths import project_root

if TYPE_CHECKING:
    from course_lib.classroom.slides.deck import ClassSlide

__all__ = ["MadePage", "main", "run"]


@dataclass(frozen=True)
class MadePage:
    """A page, where it goes, and what is said of it."""

    path: Path
    text: str
    says: str


def run(
    word: str, argv: Sequence[str], says: str, made: Callable[[str, Sequence[ClassSlide], Path], list[MadePage]]
) -> int:
    """Write the pages that ``made(title, deck, out)`` gives, where there are none, and say which.

    2 for a plan that there is not, 1 where a page cannot be written.
    """
    asked = _options(argv, word, says)
    from course_lib.classroom.slides.class_plan import class_plan
    from course_lib.classroom.slides.deck import deck_of

    try:
        plan = class_plan(" ".join(asked.plan), project_root())
        pages = made(plan.title, deck_of(plan, project_root()), asked.out)
        _write(pages)
    except ValueError as error:
        print(f"course class {word}: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    except OSError as error:
        why = error.strerror or type(error).__name__
        print(f"course class {word}: {error.filename or asked.out}: {why}.", file=sys.stderr)
        return 1
    print("\n".join(f"{page.path}: {page.says}" for page in pages))
    return 0


def _options(argv: Sequence[str], word: str, says: str) -> argparse.Namespace:
    """The words of either command."""
    parser = argparse.ArgumentParser(prog=f"course class {word}", description=says)
    parser.add_argument(
        "plan", nargs="*", metavar="PLAN", help="a plan of docs/instructor/plans.md, by words of its title"
    )
    parser.add_argument("--out", type=Path, default=Path(f"{word}.html"), metavar="FILE", help=f"{word}.html without")
    return parser.parse_args(list(argv))


def _write(pages: Sequence[MadePage]) -> None:
    """All of them, or none. Raises ``ValueError`` where something stands already, or where there is no folder."""
    for page in pages:
        if not page.path.parent.is_dir():
            raise ValueError(f"there is no folder {page.path.parent}; make it first, or name another one by --out")
        if page.path.exists():
            raise _is_there(page.path)
    for page in pages:
        try:
            with page.path.open("x", encoding="utf-8") as file:
                file.write(page.text)
        except FileExistsError:  # since it was looked at
            raise _is_there(page.path) from None


def _is_there(path: Path) -> ValueError:
    return ValueError(f"{path} is there already, and nothing is written over; name another by --out")


def main(argv: Sequence[str]) -> int:
    """Write the slides and their notes."""
    says = "Slides of a class plan, and notes for the speaker on a page of their own. They open in any browser."
    return run("slides", argv, says, _slides)


def _slides(title: str, deck: Sequence[ClassSlide], out: Path) -> list[MadePage]:
    from course_lib.classroom.slides.pages import notes_page, slides_page

    notes = out.with_name(f"{out.stem}-notes.html")
    return [
        MadePage(out, slides_page(title, deck, project_root()), f"{len(deck)} slides. Page Down or Space goes on."),
        MadePage(notes, notes_page(title, deck), "notes for the speaker, with answers. Keep it off the projector."),
    ]
