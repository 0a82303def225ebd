"""A slide for each row of a plan, and what the speaker has to know beside it. No slide holds an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.classroom.slides.class_plan import ClassPlan, ClassPlanRow, plain
from course_lib.classroom.slides.part_material import (
    SlidePicture,
    one_idea,
    part_info,
    picture_of_part,
    slide_question,
    speaker_texts,
)

__all__ = ["ClassSlide", "deck_of"]


@dataclass(frozen=True)
class ClassSlide:
    """What the room sees, and ``notes``, which it does not. ``question`` is the name of a prediction, or "";
    ``unit`` is that of the number it asks for."""

    title: str
    minutes: int
    texts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    picture: SlidePicture | None = None
    notes: tuple[str, ...] = ()
    question: str = ""
    unit: str = ""


def deck_of(plan: ClassPlan, root: Path) -> list[ClassSlide]:
    """The slides of a plan, its title first. Raises ``ValueError`` where it names what the lessons do not have."""
    when = [f"{row.minutes} min: {plain(row.what)}" for row in plan.rows]
    cover = ClassSlide(plan.title, plan.minutes, tuple(when), notes=("The minutes are those of the plan.",))
    return [cover, *(slide for row in plan.rows for slide in _slides(row, root))]


def _slides(row: ClassPlanRow, root: Path) -> Iterator[ClassSlide]:
    behind = (f"When behind: {plain(row.behind)}.",) if row.behind else ()
    if row.part:
        info = part_info(row.part, root)
        end = plain(row.what).partition(", ")[2]
        texts = (info.promise, *([end[:1].upper() + end[1:]] if end else []))
        idea = one_idea(info.number, root)
        notes = (f"The room: {plain(row.room)}.", *([f"The one idea: {idea}"] if idea else []), *behind)
        yield ClassSlide(f"{info.label} · {info.title}", row.minutes, texts, (), picture_of_part(row.part, root), notes)
    elif row.asks:
        minutes = row.minutes // len(row.asks)
        for name in row.asks:
            asked = slide_question(name, root)
            notes = (*speaker_texts(name, root), f"The room: {plain(row.room)}.", *behind)
            yield ClassSlide(
                "Stop: your guess", minutes, (asked.text,), asked.choices, asked.picture, notes, name, asked.unit
            )
    else:
        # What stands behind a question may be its answer.
        shown, mark, _ = plain(row.room).partition("?")
        notes = (*([f"The room: {plain(row.room)}."] if row.room else []), *behind)
        yield ClassSlide(
            row.what[:1].upper() + row.what[1:], row.minutes, (shown + mark,) if shown else (), notes=notes
        )
