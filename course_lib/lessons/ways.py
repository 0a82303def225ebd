"""Ways through the course for the time that somebody has, and how long each takes by the minutes of its lessons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lessons.info import LessonError, LessonInfo
from course_lib.lessons.prerequisites import missing_prerequisites

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
    Way("ten minutes", "one model, trained in five ways", ("tour",), "all that you predict or build"),
    Way(
        "an evening",
        "ranks, and one model trained by four",
        ("tour", "00", "04a"),
        "how an all-reduce works (02), every cut of the model (05 to 10), and what to choose (11)",
    ),
    Way(
        "a weekend",
        "every way to cut a model, once",
        ("00", "02a", "04a", "05a", "06a", "07a", "08a", "09a", "11a"),
        "a model on one device (01), long context and experts (10), several machines (12), and every build",
    ),
    Way(
        "a class day",
        "one batch on many ranks ([plan](docs/instructor/plans.md))",
        ("00", "02a", "04a", "04b"),
        "every cut of the model (05 to 10), and what to choose (11)",
    ),
    Way("everything", "to a plan of your own, tried for real", (), "nothing"),
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
        ("00", "02c", "04c", "04e", "11c", "12a", "12b", "12c", "12d", "12e", "12f"),
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
        "The way of the title: a single device, copies in one process and in many, stages, pipelines, slices. "
        "You build four of them yourself.",
        (
            *("01a", "01b", "03a", "03b", "03c", "04a", "04b", "04d"),
            *("06a", "06b", "07a", "07b", "07c", "07d", "08a", "08b", "08c", "08e"),
        ),
        "collectives by themselves (02), sharding (05), and several ways at once (09)",
    ),
    Way(
        "You build it all",
        "Twelve times you begin with an empty function or class, and a check judges each step.",
        (
            *("00", "01a", "02a", "02b", "02d", "03a", "03b", "03c", "04a", "04b", "04c", "04d", "05a", "05b", "05f"),
            *("05g", "06a", "07a", "07b", "07c", "07d", "08a", "08b", "08c", "08e", "10a", "10b", "10h"),
            *("09a", "09b", "09c", "09d", "09e", "10c", "10d", "10i", "11a", "11b", "11e", "12a", "12b", "12f"),
        ),
        "hidden exchanges and small experts (10e, 10f), sick runs (11c), claims on trial (13), and the capstone (14)",
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


def path_sections(infos: Sequence[LessonInfo], paths: Sequence[Way] = (*PATHS, *MORE_PATHS)) -> str:
    """A section for each path: for whom it is, its parts with links, the sum of their minutes, and what it leaves out.

    Parts that it takes without what they build on are named. Raises LessonError (a ValueError) where a path names a
    part that is not there, and where it takes one before a part that it builds on.
    """
    by_label, sections = _by_label(infos), []
    for path in paths:
        taken = _taken(path, by_label)
        parts = _links(taken, "../notebooks") if taken else "[all of them](lessons.md)"
        taken = taken or [info for info in infos if info.label]
        what = path.what.replace("](docs/", "](").removesuffix(".")
        lines = [f"Parts: {parts}.", f"Time: {hours(sum(info.minutes for info in taken))}."]
        builds = [info for info in taken if info.is_build]
        lines += [f"Builds on it, of two sittings each: {_links(builds, '../notebooks')}."] if builds else []
        lines += [f"It leaves out {path.leaves_out}."] if path.leaves_out else []
        lines += _left_open(path, by_label)
        listed = "\n".join(f"- {line}" for line in lines)
        sections.append(f"\n## {_sentence(path.time)}\n\n{_sentence(what)}.\n\n{listed}\n")
    return "\n".join(sections)


def _sentence(words: str) -> str:
    """With a capital letter."""
    return words[:1].upper() + words[1:]


def _left_open(path: Way, by_label: dict[str, LessonInfo]) -> list[str]:
    """Which parts a path takes without what they build on, in a line; none where it takes all of that before."""
    missing = missing_prerequisites(path.parts)
    late = [(part, one) for part, needed in missing.items() for one in needed if one in path.parts]
    if late:
        part, one = late[0]
        raise LessonError(f"the path {path.time!r} takes {part} before {one}, on which it builds")
    parts_of: dict[str, list[str]] = {}
    for part, needed in missing.items():
        for one in needed:
            parts_of.setdefault(one, []).append(part)
    found = [f"{_links([by_label[one]], '../notebooks')} ({', '.join(parts)})" for one, parts in parts_of.items()]
    return [f"Not on it, though the parts in brackets build on them: {', '.join(found)}."] if found else []


def _by_label(infos: Sequence[LessonInfo]) -> dict[str, LessonInfo]:
    return {info.label or info.stem: info for info in infos}


def _taken(path: Way, by_label: dict[str, LessonInfo]) -> list[LessonInfo]:
    missing = [label for label in path.parts if label not in by_label]
    if missing:
        raise LessonError(f"the path {path.time!r} takes {missing[0]}, and there is no such part")
    return [by_label[label] for label in path.parts]


def _links(taken: Sequence[LessonInfo], folder: str) -> str:
    return ", ".join(f"[{info.label or info.stem}]({folder}/{info.stem}.ipynb)" for info in taken)
