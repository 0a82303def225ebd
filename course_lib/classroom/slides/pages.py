"""The deck as pages of HTML that need nothing beside them: slides, notes for the speaker, a handout to print."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib.base.html import templates
from course_lib.classroom.slides.deck import ClassSlide
from course_lib.forms.show import escape

__all__ = ["handout_page", "notes_page", "slides_page"]

_fill = templates(__file__, words=lambda text: escape(re.sub(r"\*\*", "", str(text))))


def slides_page(title: str, deck: Sequence[ClassSlide], root: Path) -> str:
    """What the projector shows: a slide a screen, by Page Down, Space or the links; no script, no notes."""
    return _fill("slides.html", title=title, slides=[_shown(slide, root) for slide in deck])


def notes_page(title: str, deck: Sequence[ClassSlide]) -> str:
    """What the speaker reads, slide by slide: it holds answers."""
    return _fill("notes.html", title=title, slides=deck)


def handout_page(title: str, deck: Sequence[ClassSlide], root: Path) -> str:
    """What each learner has on paper: parts, pictures, questions with room for a guess; no notes."""
    kept = [_shown(slide, root) for slide in deck if slide.picture or slide.question]
    return _fill("handout.html", title=title, slides=kept)


def _shown(slide: ClassSlide, root: Path) -> dict[str, Any]:
    """A slide with its picture in the page itself; without one where its file is gone."""
    fields = {"title": slide.title, "minutes": slide.minutes, "texts": slide.texts, "choices": slide.choices}
    picture, alt = "", ""
    if slide.picture is not None:
        alt = slide.picture.alt
        try:
            picture = base64.b64encode((root / slide.picture.file).read_bytes()).decode("ascii")
        except OSError:
            picture = ""
    return {**fields, "question": slide.question, "unit": slide.unit, "picture": picture, "alt": alt}
