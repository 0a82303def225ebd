"""What a lesson says about itself in its first cell: number, title, promise, minutes, difficulty, needs.

The first markdown cell of every lesson reads::

    # # 00 · Start here
    #
    # One paragraph: what this lesson promises.
    #
    # **50 minutes · difficulty 1 of 5 · needs: cpu**

The tour, ``notebooks/src/tour.py``, is a page beside the lessons: its title is ``# Tour · name``, and it has no number.

A build takes two sittings, and so does a part that is longer than one: the line says ``**2 × 75 minutes · ...**``.

A lesson that is longer than a sitting comes in parts, a notebook each: files ``04a_name`` and ``04b_name``, titles
``# 04a · Lesson: part``. A part begins from its own first cell, and its exercises keep the lesson's number.

This module reads text alone (no Jupyter package), so the map of lessons costs nothing to draw.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from course_lib.base.paths import project_root

__all__ = [
    "NEEDS",
    "LessonError",
    "LessonInfo",
    "built_notebooks",
    "heading_link",
    "lesson_info",
    "lessons",
    "parse_first_cell",
    "short_title",
    "source_files",
    "tour",
    "tour_file",
]

NEEDS = ("cpu", "one gpu", "many gpus")

_FILE = re.compile(r"^(?P<number>\d\d)(?P<part>[a-z]?)_(?P<name>[a-z0-9_]+)$|^(?P<tour>tour)$")
_TITLE = re.compile(r"^# (?P<label>\d\d[a-z]?|Tour) · (?P<title>\S.*)$", re.MULTILINE)
_FACTS = re.compile(
    r"^\*\*(?:(?P<sittings>[2-9]) × )?(?P<minutes>\d+) minutes · "
    r"difficulty (?P<difficulty>\d) of 5 · needs: (?P<needs>[a-z ]+)\*\*$",
    re.MULTILINE,
)
_MARKER = re.compile(r"^# %%(\s|$)")


class LessonError(ValueError):
    """A lesson's source breaks a rule. The text names the file, the line where there is one, and the rule."""


@dataclass(frozen=True)
class LessonInfo:
    """The label on a lesson, or on a part of one. ``needs`` is one of "cpu", "one gpu", "many gpus".

    ``minutes`` are those of all its ``sittings``, which are equally long.
    """

    number: str
    name: str
    title: str
    promise: str
    minutes: int
    difficulty: int
    needs: str
    part: str = ""  # "a", "b", ...; empty where the lesson is one notebook
    sittings: int = 1

    @property
    def minutes_text(self) -> str:
        """The minutes as the first cell says them: "60", or "2 × 75" of two sittings."""
        return str(self.minutes) if self.sittings == 1 else f"{self.sittings} × {self.minutes // self.sittings}"

    @property
    def is_build(self) -> bool:
        """Whether the part is a build: its name begins so."""
        return self.name.startswith("build_")

    @property
    def label(self) -> str:
        """The number, and the letter of the part: "00", "04b"."""
        return self.number + self.part

    @property
    def lesson_title(self) -> str:
        """The title of the whole lesson: that of a part says it before the colon."""
        return self.title.partition(": ")[0] if self.part else self.title

    @property
    def stem(self) -> str:
        """The file name without its suffix: ``00_start_here``, or ``tour``."""
        return f"{self.label}_{self.name}" if self.label else self.name


def lessons(root: Path | None = None) -> list[LessonInfo]:
    """Every lesson in order, part by part, read from ``notebooks/src`` below ``root`` (by default this checkout)."""
    return [lesson_info(path) for path in source_files(root or project_root())]


def source_files(root: Path, lesson: str = "") -> list[Path]:
    """The sources in ``notebooks/src`` below ``root``, in order; those of one lesson ("07") where it is given."""
    return [
        path
        for path in sorted((root / "notebooks" / "src").glob("[0-9][0-9]*_*.py"))
        if (file := _FILE.match(path.stem)) and lesson in ("", file["number"])
    ]


def tour_file(root: Path) -> list[Path]:
    """The source of the tour, in a list; an empty one where there is none."""
    path = root / "notebooks" / "src" / "tour.py"
    return [path] if path.is_file() else []


def built_notebooks(folder: Path) -> list[Path]:
    """The built lessons in a folder, in order, the tour last; without copies that somebody keeps beside them."""
    lessons_here = [path for path in folder.glob("[0-9]*_*.ipynb") if " (" not in path.name]
    return [*sorted(lessons_here), *folder.glob("tour.ipynb")]


def heading_link(heading: str) -> str:
    """The end of a link that leads to a heading, as JupyterLab names it: "#Two-halves"; "" for no heading."""
    return "#" + quote(heading.replace(" ", "-")) if heading else ""


def short_title(title: str) -> str:
    """What a part is about: the words of its title after the lesson's name; the whole of one that has no such name."""
    return title.partition(": ")[2] or title


def tour(root: Path) -> list[LessonInfo]:
    """The label of the tour, in a list; an empty one where there is none."""
    return [lesson_info(path) for path in tour_file(root)]


def lesson_info(path: str | Path) -> LessonInfo:
    """Read the label of a lesson from its source (``.py``) or from a built notebook (``.ipynb``).

    Raises LessonError (a ValueError) that names the file and the part of the label that is missing.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    first = _first_cell_of_notebook(text) if path.suffix == ".ipynb" else _first_cell_of_source(text)
    return parse_first_cell(path, first)


def parse_first_cell(path: Path, first: str) -> LessonInfo:
    """The label in the markdown text ``first``; ``path`` gives number and name, and is named in errors."""
    file = _FILE.match(path.stem)
    if file is None:
        raise LessonError(
            f"{path.name}: a lesson's file is named NN_name (two digits, small letters), "
            "for example 06_model_parallel.py; a part of a lesson has a letter, as 04b_name has"
        )
    title, facts = _TITLE.search(first), _FACTS.search(first)
    label = "Tour" if file["tour"] else file["number"] + file["part"]
    if title is None:
        raise LessonError(f"{path.name}: the first cell needs a title line of the form '# {label} · Title'")
    if title["label"] != label:
        raise LessonError(f"{path.name}: the title says lesson {title['label']}, the file name {label}")
    if file["part"] and ": " not in title["title"]:
        raise LessonError(f"{path.name}: the title of a part has the form '# {label} · Lesson: what this part is'")
    if facts is None:
        raise LessonError(
            f"{path.name}: the first cell needs the line '**NN minutes · difficulty D of 5 · needs: cpu**' "
            "(minutes, difficulty and needs, in bold, on a line of its own)"
        )
    minutes, difficulty, needs = int(facts["minutes"]), int(facts["difficulty"]), facts["needs"]
    if not 1 <= difficulty <= 5:
        raise LessonError(f"{path.name}: difficulty is {difficulty}; it goes from 1 to 5")
    if not 5 <= minutes <= 180:
        raise LessonError(f"{path.name}: minutes is {minutes}; a lesson takes from 5 to 180")
    if needs not in NEEDS:
        raise LessonError(f"{path.name}: needs is {needs!r}; it is one of {', '.join(NEEDS)}")
    promise = " ".join(first[title.end() : facts.start()].split())
    if not promise:
        raise LessonError(
            f"{path.name}: the first cell needs a promise, one paragraph between the title and the minutes"
        )
    title_text = title["title"].strip()
    number, name, part = file["number"] or "", file["tour"] or file["name"], file["part"] or ""
    sittings = int(facts["sittings"] or 1)
    return LessonInfo(number, name, title_text, promise, sittings * minutes, difficulty, needs, part, sittings)


def _first_cell_of_notebook(text: str) -> str:
    cells = json.loads(text)["cells"]
    if not cells or cells[0]["cell_type"] != "markdown":
        return ""
    source = cells[0]["source"]
    return source if isinstance(source, str) else "".join(source)


def _first_cell_of_source(text: str) -> str:
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if _MARKER.match(line)]
    if not starts or "[markdown]" not in lines[starts[0]]:
        return ""
    end = starts[1] if len(starts) > 1 else len(lines)
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[starts[0] + 1 : end])
