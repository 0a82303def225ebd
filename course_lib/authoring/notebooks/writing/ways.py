"""Ways through the course for the time that somebody has, and how long each takes by the minutes of its lessons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lessons.info import LessonError, LessonInfo

__all__ = ["PATHS", "Way", "hours", "path_table"]


@dataclass(frozen=True)
class Way:
    """The parts to take, in order; none stands for all of them."""

    time: str
    what: str
    parts: tuple[str, ...] = ()


PATHS = (
    Way("an evening", "ranks, and one model trained by four", ("00", "04a")),
    Way(
        "a weekend",
        "every way to cut a model, once",
        ("00", "02a", "04a", "05a", "06a", "07a", "08a", "09a", "11a"),
    ),
    Way(
        "a class day",
        "one batch on many ranks ([plan](docs/instructor/plans.md))",
        ("00", "02a", "04a", "04b"),
    ),
    Way("everything", "to a plan of your own, tried for real"),
)


def hours(minutes: int) -> str:
    """As people say it: "50 min", "2 h 20 min", "7 h"; its spaces keep it on one line."""
    whole, rest = divmod(minutes, 60)
    words = [f"{whole} h"] * bool(whole) + [f"{rest} min"] * bool(rest or not whole)
    return " ".join(words).replace(" ", "\N{NO-BREAK SPACE}")


def path_table(infos: Sequence[LessonInfo], paths: Sequence[Way] = PATHS) -> str:
    """A line for each path: what it is, its parts with links, and the sum of their minutes.

    Raises LessonError (a ValueError) where a path names a part that is not there.
    """
    by_label = {info.label: info for info in infos}
    rows = ["| you have | you see | parts | your time |", "| --- | --- | --- | --- |"]
    for path in paths:
        missing = [label for label in path.parts if label not in by_label]
        if missing:
            raise LessonError(f"the path {path.time!r} takes {missing[0]}, and there is no such part")
        taken = [by_label[label] for label in path.parts] or list(infos)
        links = ", ".join(f"[{info.label}](notebooks/{info.stem}.ipynb)" for info in taken)
        if not path.parts:
            links = f"[all {len(taken)}](docs/lessons.md)"
        rows.append(f"| {path.time} | {path.what} | {links} | {hours(sum(info.minutes for info in taken))} |")
    return "\n".join(rows)
