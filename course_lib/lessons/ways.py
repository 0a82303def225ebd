"""Ways through the course for the time that somebody has, and how long each takes by the minutes of its lessons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lessons.info import LessonError, LessonInfo

__all__ = ["MORE_PATHS", "PATHS", "Way", "hours", "path_sections", "path_table"]


@dataclass(frozen=True)
class Way:
    """The parts to take, in order; none stands for all of them. ``leaves_out`` is what you have not seen then.

    The tour, which has no number, is written ``tour``.
    """

    time: str
    what: str
    parts: tuple[str, ...] = ()
    leaves_out: str = ""


PATHS = (
    Way("ten minutes", "one model, trained in five ways", ("tour",)),
    Way("an evening", "ranks, and one model trained by four", ("tour", "00", "04a")),
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
MORE_PATHS = (
    Way(
        "You train on 2 to 8 GPUs",
        "Your model fits on one device, or nearly, and you want it trained sooner.",
        ("00", "01a", "02a", "04a", "04b", "04c", "05a", "05b", "05e", "11a", "12d"),
        "how one layer or one model is cut among ranks (06 to 10), and what happens between machines (12a to 12c)",
    ),
    Way(
        "You choose hardware",
        "You compare machines and networks, and want to know what they are good for.",
        ("tour", "01b", "02b", "04b", "05d", "08d", "11a", "11b", "11d", "12c"),
        "all that is built: these parts are read, predicted and measured",
    ),
    Way(
        "You look after a cluster",
        "Others train there, and you are asked why a job hangs, is slow, or has died.",
        ("00", "02c", "04c", "04e", "11c", "12a", "12b", "12c", "12d", "12e"),
        "how sharding, pipelines and tensor parallelism work inside (05 to 10)",
    ),
    Way(
        "You teach",
        "You want to see what a class would do, before you take one of the [plans](instructor/plans.md).",
        ("tour", "00", "02a", "04a", "07a", "09a"),
        "most of what the class will build; `course class board` and the instructor's pages say where people get stuck",
    ),
    Way(
        "From one GPU to cut matrices",
        "The way of the title: a single device, copies in one process and in many, stages, pipelines, slices.",
        ("01a", "03a", "04a", "06a", "07a", "08a"),
        "collectives by themselves (02), sharding (05), and several ways at once (09)",
    ),
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
    by_label = _by_label(infos)
    rows = ["| you have | you see | parts | your time |", "| --- | --- | --- | --- |"]
    for path in paths:
        taken = _taken(path, by_label) or [info for info in infos if info.label]
        links = _links(taken, "notebooks")
        if not path.parts:
            links = f"[all {len(taken)}](docs/lessons.md)"
        rows.append(f"| {path.time} | {path.what} | {links} | {hours(sum(info.minutes for info in taken))} |")
    return "\n".join(rows)


def path_sections(infos: Sequence[LessonInfo], paths: Sequence[Way] = MORE_PATHS) -> str:
    """A section for each path: for whom it is, its parts with links, the sum of their minutes, and what it leaves out.

    Raises LessonError (a ValueError) where a path names a part that is not there.
    """
    by_label, sections = _by_label(infos), []
    for path in paths:
        taken = _taken(path, by_label)
        links, time = _links(taken, "../notebooks"), hours(sum(info.minutes for info in taken))
        sections.append(f"\n## {path.time}\n\n{path.what}\n\n{links}: {time}.\n\nIt leaves out {path.leaves_out}.\n")
    return "\n".join(sections)


def _by_label(infos: Sequence[LessonInfo]) -> dict[str, LessonInfo]:
    return {info.label or info.stem: info for info in infos}


def _taken(path: Way, by_label: dict[str, LessonInfo]) -> list[LessonInfo]:
    missing = [label for label in path.parts if label not in by_label]
    if missing:
        raise LessonError(f"the path {path.time!r} takes {missing[0]}, and there is no such part")
    return [by_label[label] for label in path.parts]


def _links(taken: Sequence[LessonInfo], folder: str) -> str:
    return ", ".join(f"[{info.label or info.stem}]({folder}/{info.stem}.ipynb)" for info in taken)
