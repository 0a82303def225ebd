"""``course class handout``: what each learner of a class plan has on paper, without answers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from course_lib.base.paths import project_root
from course_lib.classroom.slides.command import options, run, written

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Write the handout."""
    says = "The pictures and questions of a class plan on one page, to print, without answers."
    return run("handout", options(argv, "handout", says), _handout)


def _handout(asked: argparse.Namespace) -> list[str]:
    from course_lib.classroom.slides.class_plan import class_plan
    from course_lib.classroom.slides.deck import deck_of
    from course_lib.classroom.slides.pages import handout_page

    root = project_root()
    plan = class_plan(" ".join(asked.plan), root)
    deck = deck_of(plan, root)
    written(asked.out, handout_page(plan.title, deck, root))
    return [f"{asked.out}: {sum(bool(slide.question) for slide in deck)} questions, with room for guesses. Print it."]
