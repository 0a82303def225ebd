"""The first page of an export: the map of the lessons, what was predicted, and which checks were passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from course_lib.base.html import templates
from course_lib.learn import exercises
from course_lib.learn.checks.progress_map import PROGRESS_HEAD, progress_map
from course_lib.learn.display.units import quantity
from course_lib.learn.records.store import Store
from course_lib.learn.records.summary import summary
from course_lib.mine.listing import listed
from course_lib.mine.place import mine_folder
from course_lib.mine.use import day_of

__all__ = ["first_page"]

_fill = templates(__file__)
_PREDICTED = ("question", "you predicted", "measured", "cost model", "right")
_KEPT = ("function", "check", "file", "passed on", "the file now")
_CHECKED = ("check", "state", "tries", "hints", "named mistakes met")


def first_page(kept: Store) -> str:
    """What this store tells, as sections of HTML."""
    events = kept.read()
    found = progress_map(kept)
    sections = [
        FirstPageSection("Progress", PROGRESS_HEAD, [line.row() for line in found.lines], found.messages),
        FirstPageSection("Predictions", _PREDICTED, _predicted(events)),
        FirstPageSection("Checks", _CHECKED, _checked(events)),
        *_own_library(),
    ]
    return _fill("first.html", sections=sections)


class FirstPageSection(NamedTuple):
    """A table under its title, and sentences below it; no table where there are no rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    messages: Sequence[str] = ()
    texts: Sequence[tuple[str, str]] = ()  # sources, each under a title


def _own_library() -> list[FirstPageSection]:
    """What the learner has kept, as a table and as text; no section for who has kept nothing."""
    try:
        found = listed(mine_folder())
    except (OSError, ValueError):
        return []
    rows = [
        [f"mine.{one.entry.name}", one.entry.exercise, one.entry.file, day_of(one.when) or "–", one.state]
        for one in found
    ]
    texts = [(f"mine.{one.entry.name}", one.source) for one in found if one.source]
    return [FirstPageSection("Your own library", _KEPT, rows, texts=texts)] if found else []


def _predicted(events: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each question: as it was first seen beside a run, or else as it is locked now."""
    locked: dict[str, Mapping[str, Any]] = {}
    seen: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event["event"] == "guess":
            locked[str(event["name"])] = event
        elif event["event"] == "predict" and event.get("kind") != "bet":
            seen.setdefault(str(event["name"]), event)
    return [
        _row_of_seen(name, seen[name]) if name in seen else _row_of_locked(name, locked[name])
        for name in sorted(seen.keys() | locked.keys())
    ]


def _row_of_seen(name: str, event: Mapping[str, Any]) -> list[str]:
    unit, off = str(event.get("unit") or ""), event.get("off")
    if "predicted" not in event and isinstance(off, int | float):  # an older course kept no more
        return [_question(name), f"{off:g} times what was measured", "–", "–", _yes(event.get("right"))]
    values = [_words(event.get(key), unit) for key in ("predicted", "measured", "model")]
    return [_question(name), *values, _yes(event.get("right"))]


def _row_of_locked(name: str, event: Mapping[str, Any]) -> list[str]:
    value = _words(event.get("value"), str(event.get("unit") or ""))
    return [_question(name), value, "not seen yet", "–", "–"]


def _words(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    return quantity(value, unit)


def _yes(right: Any) -> str:
    return "✓ right" if right is True else "✗ not so" if right is False else "–"


def _question(name: str) -> str:
    try:
        return f"{name}: {exercises.prediction(name).question}"
    except ValueError:
        return name


def _checked(events: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for lesson, done in summary(events).items():
        titles = {one.name: one.title for one in exercises.exercises_of(lesson)} if lesson in _known() else {}
        for name in sorted(done.tries):
            met = [
                f"{mistake.partition(' ')[2].replace('-', ' ')} ({times})"
                for mistake, times in done.mistakes.items()
                if mistake.startswith(f"{name} ")
            ]
            state = "✓ passed" if name in done.passed else "not passed yet"
            state += ", the solution was shown" if name in done.solutions else ""
            label = f"{name}: {titles[name]}" if name in titles else name
            rows.append([label, state, str(done.tries[name]), str(done.hints.get(name, 0)), ", ".join(met) or "–"])
    return rows


def _known() -> tuple[str, ...]:
    return exercises.lesson_numbers()
