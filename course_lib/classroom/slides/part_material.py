"""What a lesson's page has for a slide: its title and promise, the picture above a question, the question itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from course_lib.learn import exercises
from course_lib.lessons.info import LessonInfo, lesson_info, source_files

__all__ = [
    "SlidePicture",
    "SlideQuestion",
    "one_idea",
    "part_info",
    "picture_of_part",
    "slide_question",
    "speaker_texts",
]

_PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\(\.\./(?P<file>assets/[^)\s]+)\)")
_HEADING = re.compile(r"^## ", re.MULTILINE)


@dataclass(frozen=True)
class SlidePicture:
    """A picture of a lesson's page: its file below the course's folder, and what it shows in words."""

    file: str
    alt: str


@dataclass(frozen=True)
class SlideQuestion:
    """A prediction as the lesson asks it: its name, text, choices or unit, and the picture that stands above it."""

    name: str
    text: str
    choices: tuple[str, ...]
    unit: str  # of a number that is asked for
    picture: SlidePicture | None


def part_info(part: str, root: Path) -> LessonInfo:
    """What a part says about itself. Raises ``ValueError`` for one that there is not."""
    return lesson_info(_source(part, root))


def picture_of_part(part: str, root: Path) -> SlidePicture | None:
    """The first picture on the page of a part."""
    return next(iter(_pictures(_text(_source(part, root)))), None)


def slide_question(name: str, root: Path) -> SlideQuestion:
    """The question of this name, with the last picture above it in its section.

    Raises ``ValueError`` for one that no lesson asks.
    """
    for path in source_files(root, name[:2]):
        text = _text(path)
        place = text.find(f'ask("{name}")')
        if place >= 0:
            section = _HEADING.split(text[:place])[-1]
            pictures = _pictures(section)
            asked = exercises.prediction(name)
            choices = tuple(map(str, asked.choices or asked.order or ()))
            return SlideQuestion(name, asked.question, choices, asked.unit, pictures[-1] if pictures else None)
    raise ValueError(f"no lesson asks {name!r}, which a plan stops for")


def speaker_texts(name: str, root: Path) -> list[str]:
    """What the instructor's page of the lesson says of a question, answer and all; nothing where it says nothing."""
    items = re.split(r"^- ", _instructors(name[:2], root), flags=re.MULTILINE)[1:]
    texts = [" ".join(item.partition("\n\n")[0].split()) for item in items]
    return [text for text in texts if f'ask("{name}")' in text]


def one_idea(lesson: str, root: Path) -> str:
    """The one idea of a lesson, as its instructor's page has it; "" where there is none."""
    found = re.search(r"^## The one idea\n+(.*?)(?=\n\n|\Z)", _instructors(lesson, root), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def _source(part: str, root: Path) -> Path:
    for path in source_files(root, part[:2]):
        if path.stem.partition("_")[0] == part:
            return path
    raise ValueError(f"there is no part {part!r}, which a plan takes")


def _text(path: Path) -> str:
    """A source as its page reads: without the signs that make text a comment."""
    return re.sub(r"^#(?: |$)", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def _pictures(text: str) -> list[SlidePicture]:
    return [SlidePicture(found["file"], " ".join(found["alt"].split())) for found in _PICTURE.finditer(text)]


def _instructors(lesson: str, root: Path) -> str:
    try:
        return (root / "docs" / "instructor" / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    except OSError:
        return ""
