"""The first page of an export: the map of the lessons, what was predicted, and which checks were passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from course_lib.learn import exercises
from course_lib.learn.checks.progress_map import progress_map
from course_lib.learn.display.units import quantity
from course_lib.learn.records.store import Store
from course_lib.learn.records.summary import summary

__all__ = ["first_page"]

_PROGRESS = ("lesson", "time", "state", "exercises", "quiz", "predictions")
_PREDICTED = ("question", "you predicted", "measured", "cost model", "right")
_CHECKED = ("check", "state", "tries", "hints", "named mistakes met")


def first_page(kept: Store) -> str:
    """What this store tells, as sections of HTML."""
    events = kept.read()
    found = progress_map(kept)
    parts = [_section("Progress", _PROGRESS, [line.row() for line in found.lines])]
    parts += [f"<p>{escape(text)}</p>" for text in found.messages]
    parts.append(_section("Predictions", _PREDICTED, _predicted(events)))
    parts.append(_section("Checks", _CHECKED, _checked(events)))
    return "".join(parts)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return f"<h2>{title}</h2><p>None yet.</p>"
    top = "".join(f"<th scope='col'>{escape(text)}</th>" for text in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in rest)
        body += f"<tr><th scope='row'>{escape(first)}</th>{cells}</tr>"
    table = f"<table aria-label='{title}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h2>{title}</h2><div class='sideways' tabindex='0' role='group' aria-label='{title}'>{table}</div>"


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
