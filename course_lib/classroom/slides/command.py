"""``course class slides``: slides of a class plan for the projector, and notes for the speaker on another page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from course_lib.base.foreign_text import one_line
from course_lib.base.paths import project_root

__all__ = ["main", "options", "run", "written"]


def options(argv: Sequence[str], word: str, says: str) -> argparse.Namespace:
    """The words of either command."""
    parser = argparse.ArgumentParser(prog=f"course class {word}", description=says)
    parser.add_argument(
        "plan", nargs="*", metavar="PLAN", help="a plan of docs/instructor/plans.md, by words of its title"
    )
    parser.add_argument("--out", type=Path, default=Path(f"{word}.html"), metavar="FILE", help=f"{word}.html without")
    return parser.parse_args(list(argv))


def run(word: str, asked: argparse.Namespace, write: Callable[[argparse.Namespace], list[str]]) -> int:
    """Write pages and say which; 2 for a plan that there is not, 1 where a page cannot be written."""
    try:
        print("\n".join(write(asked)))
    except ValueError as error:
        print(f"course class {word}: {one_line(error, 2000)}", file=sys.stderr)
        return 2
    except OSError as error:
        why = error.strerror or type(error).__name__
        print(f"course class {word}: {error.filename or asked.out}: {why}.", file=sys.stderr)
        return 1
    return 0


def written(path: Path, text: str) -> None:
    """Write a page where there is none. Raises ``ValueError`` where there is something, or no folder for it."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}; make it first, or name another one by --out")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path} is there already, and nothing is written over; name another by --out") from None


def main(argv: Sequence[str]) -> int:
    """Write the slides and their notes."""
    says = "Slides of a class plan, and notes for the speaker on a page of their own. They open in any browser."
    return run("slides", options(argv, "slides", says), _slides)


def _slides(asked: argparse.Namespace) -> list[str]:
    from course_lib.classroom.slides.class_plan import class_plan
    from course_lib.classroom.slides.deck import deck_of
    from course_lib.classroom.slides.pages import notes_page, slides_page

    root = project_root()
    plan = class_plan(" ".join(asked.plan), root)
    deck = deck_of(plan, root)
    notes = asked.out.with_name(f"{asked.out.stem}-notes.html")
    if notes.exists():
        raise ValueError(f"{notes} is there already, and nothing is written over; name another by --out")
    written(asked.out, slides_page(plan.title, deck, root))
    written(notes, notes_page(plan.title, deck))
    return [
        f"{asked.out}: {len(deck)} slides. Page Down or Space goes on.",
        f"{notes}: notes for the speaker, with answers. Keep it off the projector.",
    ]
