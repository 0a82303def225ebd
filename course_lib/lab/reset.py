"""``course lab --reset 04a``: a lesson as it was at the start; what was made of it is kept under another name."""

from __future__ import annotations

import time
from collections.abc import Sequence

from course_lib.lab.edition import lesson_named, pristine
from course_lib.lab.folder import LessonFolder
from course_lib.lab.hand_out import free_name, hand_out, write
from course_lib.lab.work import is_same_work

__all__ = ["reset"]


def reset(place: LessonFolder, words: Sequence[str], *, now: str = "") -> list[str]:
    """Reset each lesson and say in a sentence what happened to it.

    Raises:
        ValueError: A word names no lesson, or several; then none was reset.
        OSError: A notebook cannot be written.
    """
    names = list(dict.fromkeys(lesson_named(place.course, word) for word in words))
    return [_reset_one(place, name, now or time.strftime("%Y-%m-%d %H.%M")) for name in names]


def _reset_one(place: LessonFolder, name: str, now: str) -> str:
    file, content = place.folder / name, pristine(place.course, name)
    kept = None
    if file.is_file():
        if is_same_work(name, file.read_bytes(), content):
            return f"{file} is as it was handed out: there is nothing to reset."
        kept = free_name(file, f"kept {now}")
        file.rename(kept)
    if place.is_clone:
        write(file, content)
    else:
        hand_out(place.folder, {name: content})
    if kept is None:
        return f"{file} was not there, and is now."
    return (
        f"{file} is as it was at the start; yours is kept as {kept.name!r}. If it is open in JupyterLab, close it "
        "there and open it again. Recorded answers stay."
    )
