"""A page of a build that has passed: its steps with their days, what it cost, and what it is worth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib import __version__
from course_lib.base.html import templates
from course_lib.learn import exercises
from course_lib.learn.builds.catalogue import BUILDS, build_named
from course_lib.learn.builds.progress import progress_of

__all__ = ["certificate", "passed_builds", "write_certificate"]

_fill = templates(__file__)


def passed_builds(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The builds of which every step has passed, each with the day of the last one ("" where it is not known)."""
    days = _days(events)
    return {
        build.name: max(days[step] for step in build.steps)
        for build in BUILDS
        if all(step in days for step in build.steps)
    }


def certificate(name: str, events: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML. Raises ``ValueError`` for a name that no build has, and for a build with steps to go."""
    build = build_named(name)
    found = progress_of(build, events)
    if found.points < len(build.steps):
        raise ValueError(f"{build.name} has steps to go. {found.says}")
    days, costs = _days(events), found.costs
    steps = [[exercises.exercise(line.name).title, days[line.name], str(line.tries)] for line in found.lines]
    table = [] if costs is None else repr(costs).splitlines()
    return _fill("certificate.html", title=build.title, name=build.name, steps=steps, costs=table, version=__version__)


def write_certificate(name: str, events: Sequence[Mapping[str, Any]], out: Path | None = None) -> Path:
    """Write the page, by default where you are, and return its path; nothing is written over.

    Raises ``ValueError`` as ``certificate`` does, and where there is something at ``out`` already; ``OSError`` where
    it cannot be written.
    """
    page = certificate(name, events)
    path = out or Path(f"build-{name}.html")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}; make it first, or name another page by --out")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(f"{path} is there already, and nothing is written over; --out names another page") from None
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(page)
    return path


def _days(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The day on which each exercise first passed, as the record has it."""
    days: dict[str, str] = {}
    for event in events:
        if event["event"] == "check" and event.get("status") == "passed":
            days.setdefault(str(event["name"]), str(event.get("time", ""))[:10])
    return days
