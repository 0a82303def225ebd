"""The start page: what is done, what comes next and why, what is asked again today, what is yours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from course_lib.base.foreign_text import one_line
from course_lib.base.html import templates
from course_lib.base.paths import project_root
from course_lib.base.text import and_list, counted
from course_lib.forms.show import Shown, escape, panel, show
from course_lib.learn.checks.lesson_index import places
from course_lib.learn.records.store import store
from course_lib.lessons.info import LessonInfo, lessons, tour
from course_lib.lessons.prerequisites import PREREQUISITES, all_prerequisites
from course_lib.lessons.ways import Way, hours
from course_lib.mine.listing import listed
from course_lib.mine.place import mine_folder
from course_lib.mine.table import ENTRIES
from course_lib.start_page.asking_session import AskingSession
from course_lib.start_page.certificate import passed_builds
from course_lib.start_page.chosen_path import choose_path, chosen_path, parts_of
from course_lib.start_page.part_states import PartState, builds_on, part_states
from course_lib.start_page.placement import PlacementSession
from course_lib.start_page.review_session import ReviewSession
from course_lib.start_page.reviews import ReviewState, due_on, review_states

__all__ = ["StartPage", "StartSection", "part_page", "placement_of", "review_of", "start", "start_page", "today"]

_fill = templates(__file__, words=escape)
_WORDS = {"done": "done", "known": "known by your placement", "begun": "begun", "open": "not begun"}


@dataclass(frozen=True)
class StartSection:
    """A heading, sentences below it, and perhaps a link that a notebook beside the lessons can follow."""

    title: str
    lines: tuple[str, ...]
    link: str = ""
    linked: str = ""


@dataclass(frozen=True, repr=False)
class StartPage(Shown):
    """The page of one learner on one day; ``next`` is the part that comes next, None where the path is done."""

    sections: tuple[StartSection, ...]
    next: LessonInfo | None
    due: tuple[ReviewState, ...]

    def __repr__(self) -> str:
        return "\n\n".join("\n".join([one.title, *(f"  {line}" for line in one.lines)]) for one in self.sections)

    def _html(self) -> str:
        here = [StartSection(one.title, one.lines, _there(one.link), one.linked) for one in self.sections]
        return panel("info", "Your start page", _fill("start.html", sections=here))


def today() -> date:
    """The day where the learner is; tests put another in its place."""
    return datetime.now().date()


def start(
    part: str = "", *, path: str = "", review: bool = False, placement: bool = False
) -> StartPage | AskingSession:
    """Show your start page, and return it.

    Args:
        part: A part, as "04d": show instead what it builds on, and which of that you have done.
        path: A path of docs/paths.md to take from now on, by its name or some words of it.
        review: Ask the questions that you missed and that are due today.
        placement: Ask at most twenty questions, and say which parts you can skip.

    Raises ``ValueError`` for a path or a part that there is not, with those that there are.
    """
    if path:
        choose_path(path)
    shown = placement_of() if placement else review_of() if review else part_page(part) if part else start_page()
    show(shown)
    return shown


def placement_of() -> PlacementSession:
    """The questions that find where to begin, on the path that is chosen."""
    return PlacementSession(parts_of(chosen_path(store().read()), _infos()), places())


def review_of() -> ReviewSession:
    """The questions that are due today."""
    events = store().read()
    return ReviewSession(due_on(events, today()), events)


def start_page() -> StartPage:
    """The page as it stands now, shown to nobody."""
    kept = store()
    events = kept.read()
    path = chosen_path(events)
    infos = _infos()
    taken = [info.stem for info in parts_of(path, infos)]
    all_states = {state.info.stem: state for state in part_states(infos, places(), events)}
    states = [all_states[stem] for stem in taken]
    ahead, why = _ahead(states)
    if ahead is not None and ahead.info.label:
        by_label = {state.label: state for state in all_states.values()}
        why = f"{why} {builds_on(ahead.label, by_label, [state.label for state in states])}"
    due = tuple(due_on(events, today()))
    sections = [
        _path_section(path, states),
        _next_section(ahead, why),
        _review_section(due, events),
        _own_section(),
        *_builds_section(events),
        _record_section(kept.messages, kept.path),
    ]
    return StartPage(tuple(sections), ahead.info if ahead else None, due)


def part_page(part: str) -> StartPage:
    """What a part builds on, which of that is done, and what to read first; shown to nobody.

    Raises ``ValueError`` for a part that there is not, with those that there are.
    """
    events = store().read()
    states = _by_label(events)
    wanted = part.strip().lower()
    if wanted not in PREREQUISITES or wanted not in states:
        raise ValueError(f"there is no part {one_line(part, 40)!r}; there are {', '.join(filter(None, states))}")
    state = states[wanted]
    says = f" {state.says}." if state.says else ""
    lines = (f"{hours(state.info.minutes)}, {_WORDS[state.state]}.{says}", *_way_to(state, states))
    sections = [_linked(state, lines)]
    for label in PREREQUISITES[wanted]:
        one = states[label]
        sections.append(_linked(one, (f"{_WORDS[one.state].capitalize()}.{f' {one.says}.' if one.says else ''}",)))
    left = _left(state, states)
    return StartPage(tuple(sections), (left[0] if left else state).info, ())


def _way_to(state: PartState, states: Mapping[str, PartState]) -> list[str]:
    """What is left of the parts that this one builds on, and of those that they build on."""
    if not PREREQUISITES[state.label]:
        return ["It builds on no other part."]
    left = _left(state, states)
    lines = [f"It builds on {and_list(PREREQUISITES[state.label])}; how far you are there stands below."]
    if not left:
        return [*lines, "You have done or know all parts that it builds on, directly or indirectly. You can begin."]
    time = hours(sum(one.info.minutes for one in left))
    parts = "1 part is" if len(left) == 1 else f"{len(left)} parts are"
    return [*lines, f"With what those build on, {parts} left before it, {time}. Read {left[0].label} first."]


def _left(state: PartState, states: Mapping[str, PartState]) -> list[PartState]:
    needed = all_prerequisites(state.label)
    return [one for label, one in states.items() if label in needed and not one.is_over]


def _linked(state: PartState, lines: tuple[str, ...]) -> StartSection:
    name = f"{state.label} · {state.info.title}"
    return StartSection(name, lines, f"{state.info.stem}.ipynb", name)


def _by_label(events: Sequence[Mapping[str, Any]]) -> dict[str, PartState]:
    return {state.info.label: state for state in part_states(_infos(), places(), events)}


def _infos() -> list[LessonInfo]:
    root = project_root()
    return [*tour(root), *lessons(root)]


def _ahead(states: Sequence[PartState]) -> tuple[PartState | None, str]:
    """The part that comes next, and why: one that is begun, else the first that is not over."""
    begun = [state for state in states if state.state == "begun"]
    if begun:
        state = begun[-1]
        return state, f"You have begun it{f': {state.says}' if state.says else ''}."
    state = next((state for state in states if not state.is_over), None)
    if state is None:
        return None, "Every part of your path is done. `course start --path` takes another."
    over = [one for one in states[: states.index(state)] if one.is_over]
    if not over:
        return state, "Your path begins with it."
    known = " or known" if any(one.state == "known" for one in over) else ""
    return state, f"What comes before it on your path is done{known}, up to {over[-1].label}."


def _path_section(path: Way, states: Sequence[PartState]) -> StartSection:
    done = sum(state.state == "done" for state in states)
    known = sum(state.state == "known" for state in states)
    left = sum(state.info.minutes for state in states if not state.is_over)
    counts = f"{done} of {counted(len(states), 'part')} done"
    counts += f", {known} known by your placement" if known else ""
    begun = [state.label for state in states if state.state == "begun"]
    lines = [f"{counts}; {hours(left)} left."]
    lines += [f"Begun: {and_list(begun)}."] if begun else []
    lines.append('Another path: `course start --path "You choose hardware"`; docs/paths.md says what each is for.')
    return StartSection(f"Your path: {path.time}", tuple(lines))


def _next_section(ahead: PartState | None, why: str) -> StartSection:
    if ahead is None:
        return StartSection("What comes next", (why,))
    info = ahead.info
    name = f"{info.label} · {info.title}" if info.label else info.title
    lines = (f"{name}, {hours(info.minutes)}.", why, f"Open it: `course lab --open {ahead.label}`.")
    return StartSection("What comes next", lines, f"{info.stem}.ipynb", name)


def _review_section(due: Sequence[ReviewState], events: Sequence[Mapping[str, Any]]) -> StartSection:
    if due:
        lines = [f"{one.name}, a {one.kind}, missed on {one.missed_on:%d %B %Y}." for one in due]
        lines.append("Answer: `course start --review`; in a notebook `start(review=True)`.")
        return StartSection("Asked again today", tuple(lines))
    waiting = review_states(events)
    later = [one for one in waiting if one.due_on > today()]
    if later:
        return StartSection("Asked again today", (f"Nothing. The next is due on {later[0].due_on:%d %B %Y}.",))
    said = "Nothing more; the others wait for tomorrow." if waiting else "Nothing: no missed question waits."
    return StartSection("Asked again today", (said,))


def _own_section() -> StartSection:
    try:
        found = listed(mine_folder())
    except (OSError, ValueError) as error:
        return StartSection("Your own library", (f"It cannot be read: {error}.",))
    if not found:
        empty = "Empty: what passes its check is kept in `mine/`, and later lessons run on it."
        return StartSection("Your own library", (empty,))
    lines = [f"{len(found)} of {len(ENTRIES)} functions are kept."]
    lines += [f"`mine.{one.entry.name}`: {one.state}." for one in found]
    return StartSection("Your own library", tuple(lines))


def _builds_section(events: Sequence[Mapping[str, Any]]) -> list[StartSection]:
    builds = passed_builds(events).items()
    lines = [f"{name}, on {day or 'a day not kept'}: `course start --certificate {name}`." for name, day in builds]
    return [StartSection("Builds passed", (*lines, "Each command writes a page of yours."))] if builds else []


def _record_section(messages: Sequence[str], path: Path | None) -> StartSection:
    where = f"It is read from {path}, and nothing leaves this machine." if path else "Progress is not kept in this run."
    return StartSection("Your record", (*messages, where))


def _there(link: str) -> str:
    """The link from the folder where the notebook runs; "" where the lesson lies neither there nor beside it."""
    for before in ("", "../", "notebooks/"):
        if link and Path(before + link).is_file():
            return before + link
    return ""
