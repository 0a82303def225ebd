"""``course class handout``: what each learner of a class plan has on paper, without answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.base.paths import project_root
from course_lib.classroom.slides.command import MadePage, run

if TYPE_CHECKING:
    from course_lib.classroom.slides.deck import ClassSlide

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Write the handout."""
    says = "The pictures and questions of a class plan on one page, to print, without answers."
    return run("handout", argv, says, _handout)


def _handout(title: str, deck: Sequence[ClassSlide], out: Path) -> list[MadePage]:
    from course_lib.classroom.slides.pages import handout_page

    asked = sum(bool(slide.question) for slide in deck)
    return [
        MadePage(out, handout_page(title, deck, project_root()), f"{asked} questions, with room for guesses. Print it.")
    ]
