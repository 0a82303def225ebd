"""``build_progress("04.ddp")``: which steps of a build have passed, what is next, and what the learner's cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.base.text import columns
from course_lib.forms.show import Shown, panel, paragraph, show, table
from course_lib.learn import exercises
from course_lib.learn.builds.build import Build
from course_lib.learn.builds.catalogue import build_named
from course_lib.learn.records.store import store
from course_lib.learn.records.summary import summary

__all__ = ["BuildProgress", "StepLine", "build_progress", "progress_of"]

_HEAD = ["step", "what it demands", "state", "tries"]
_SIGNS = {"passed": "✓ passed", "next": "◐ next", "": "○"}


@dataclass(frozen=True)
class StepLine:
    """One step: its exercise, its title, "passed", "next" or "", and how often it was tried."""

    name: str
    title: str
    state: str
    tries: int

    def row(self) -> list[str]:
        return [self.name, self.title, _SIGNS[self.state], str(self.tries)]


@dataclass(frozen=True, repr=False)
class BuildProgress(Shown):
    """How far a learner is with a build; ``costs`` is the last table of ``side_by_side``, as texts, or None."""

    build: Build
    lines: tuple[StepLine, ...]
    costs: Any = None

    @property
    def points(self) -> int:
        """A point for each step that has passed."""
        return sum(line.state == "passed" for line in self.lines)

    @property
    def says(self) -> str:
        """How far it is, in words."""
        count, build = len(self.lines), self.build
        if self.points == count:
            return f"All {count} steps have passed: `mine.{build.entry}` is whole."
        ahead = next(line for line in self.lines if line.state == "next")
        done = {line.name for line in self.lines if line.state == "passed"}
        usable = done & set(build.steps[build.steps.index(build.usable_from) :])
        use = (
            f"Lessons run on it, as `mine.{build.entry}`."
            if usable
            else f"Lessons run on it once {build.usable_from} has passed."
        )
        return f"{self.points} of {count} steps have passed. Next: {ahead.name}, {ahead.title}. {use}"

    def __repr__(self) -> str:
        text = columns([_HEAD, *(line.row() for line in self.lines)])
        costs = [repr(self.costs)] if self.costs else []
        return "\n".join([f"{self.build.name}: {self.build.title}", *text, self.says, *costs])

    def _html(self) -> str:
        body = table(_HEAD, [line.row() for line in self.lines]) + paragraph(self.says)
        return panel(
            "info", f"{self.build.name}: {self.build.title}", body + (self.costs._html() if self.costs else "")
        )


def build_progress(name: str) -> BuildProgress:
    """Show how far this learner is with the build of this name, and return it.

    Raises ``ValueError`` for a name that no build has.
    """
    found = progress_of(build_named(name), store().read())
    show(found)
    return found


def progress_of(build: Build, events: Iterable[Mapping[str, Any]]) -> BuildProgress:
    """How far the learner of these events is, shown to nobody."""
    known = list(events)
    done = summary(known).get(build.lesson)
    passed = {step for step in build.steps if done is not None and step in done.passed}
    ahead = build.next_of(passed)
    lines = [
        StepLine(
            step,
            exercises.exercise(step).title,
            "passed" if step in passed else "next" if step == ahead else "",
            done.tries[step] if done is not None else 0,
        )
        for step in build.steps
    ]
    return BuildProgress(build, tuple(lines), _last_costs(build, known))


def _last_costs(build: Build, events: list[Mapping[str, Any]]) -> Any:
    """The last table of this build in the record, or None. A damaged event is left out."""
    for event in reversed(events):
        if (event.get("event"), event.get("name")) == ("comparison", build.name) and _is_table(event.get("columns")):
            from course_lib.learn.builds.comparison import SideBySide

            return SideBySide(event["columns"], {}, str(event.get("title", "")))
    return None


def _is_table(columns: Any) -> bool:
    return isinstance(columns, dict) and all(
        isinstance(column, dict) and all(isinstance(cell, str) for cell in column.values())
        for column in columns.values()
    )
