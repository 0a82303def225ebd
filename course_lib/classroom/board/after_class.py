"""``course class board FOLDER --after FILE``: a page to fill in after a class, begun with what the class shared.

It has the real minutes beside those of the pages, where people were stuck, which predictions most missed, and empty
lines for who taught. No name is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from course_lib.base.text import counted
from course_lib.classroom.board.class_minutes import (
    PAUSE_MINUTES,
    last_day,
    minutes_by_part,
    minutes_until_passed,
    on_day,
)
from course_lib.classroom.board.mistake_stats import checks, mistakes
from course_lib.classroom.board.read_shared import Learner
from course_lib.learn.checks.lesson_index import LessonIndex
from course_lib.lessons.info import lessons, short_title

__all__ = ["after_class"]

_MOST_LINES = 10
_TO_FILL_IN = (
    "The plan, and how many minutes late it ended",
    "What was left out",
    "What the room asked that no page answers",
    "What broke on the machine, and what helped",
    "What to change before the next class",
)


def after_class(learners: Sequence[Learner], known: LessonIndex, *, lesson: str = "", day: date | None = None) -> str:
    """The page as Markdown, of one day: the last one on which somebody answered, where none is given.

    Raises ``ValueError`` where nobody answered on that day, or no answer has a time.
    """
    last = last_day(learners)
    if last is None:
        raise ValueError("no shared answer has a time, so the page cannot find the day of a class")
    day = day or last
    present = on_day(learners, day)
    if not present:
        raise ValueError(
            f"nobody who shares here answered on {day:%Y-%m-%d}; the last day with answers is {last:%Y-%m-%d}"
        )
    lines = [
        f"# After the class of {day.day} {day:%B %Y}",
        "",
        f"{counted(len(present), 'learner')} shared. `course class board` counted the numbers below. Empty cells and "
        "lines are for you.",
        "",
        *_minutes(present, known, lesson),
        *_stuck(present, known, lesson),
        *_missed(present, known, lesson),
        "## For you to write",
        "",
        *[line for words in _TO_FILL_IN for line in (f"- {words}:", "")],
    ]
    return "\n".join(lines).rstrip() + "\n"


def _minutes(present: Sequence[Learner], known: LessonIndex, lesson: str) -> list[str]:
    page_says = {info.label: info.minutes_text for info in lessons()}
    rows = []
    for one in minutes_by_part(present, known, lesson):
        through = "–" if one.through is None else str(one.through)
        span = f"{one.minutes[0]:.0f} to {one.minutes[-1]:.0f}" if one.minutes else "–"
        title = short_title(known.title(one.place))
        counts = [f"{one.median:.0f}", span, str(one.begun), through]
        rows.append([f"{one.place} {title}", page_says.get(one.place, "–"), *counts, ""])
    head = ["part", "the page says", "median here", "quickest to slowest", "began", "passed every check", "your note"]
    told = (
        "The minutes between one answer and the next, for those who began the part. They leave out reading before the "
        f"first answer of the day, and pauses of more than {PAUSE_MINUTES} minutes. So they are too few, most of all "
        "in the first part."
    )
    return ["## Minutes", "", *_table(head, rows), told, ""]


def _stuck(present: Sequence[Learner], known: LessonIndex, lesson: str) -> list[str]:
    until, met = minutes_until_passed(present), {}
    for one in mistakes(present, known, lesson):
        met.setdefault(one.check, f"{one.words} ({one.learners})")
    found = sorted(checks(present, known, lesson), key=lambda one: (-one.held_up, -until.get(one.name, 0.0), one.name))
    rows = [
        [one.name, f"{one.held_up} of {one.tried}", f"{one.tries:g}", f"{one.hinted} / {one.solved}",
         f"{until[one.name]:.0f}" if one.name in until else "–", met.get(one.name, "–"), ""]
        for one in found[:_MOST_LINES]
    ]  # fmt: skip
    head = ["check", "tried, not passed", "tries (median)", "had hints / solution", "minutes until it passed (median)",
            "mistake that most met", "what helped"]  # fmt: skip
    more = len(found) - _MOST_LINES
    told = [f"And {more} more, each of which fewer learners were held up by.", ""] if more > 0 else []
    return ["## Where people were stuck", "", *_table(head, rows, "No check was tried."), *told]


def _missed(present: Sequence[Learner], known: LessonIndex, lesson: str) -> list[str]:
    seen: dict[str, dict[str, bool]] = {}
    for one in present:
        for event in one.events:
            is_told = event["event"] == "predict" and isinstance(event.get("right"), bool)
            if is_told and known.is_in(known.place(event["name"], "predict"), lesson):
                seen.setdefault(event["name"], {}).setdefault(one.word, event["right"])
    counts = [(name, len(answers) - sum(answers.values()), len(answers)) for name, answers in seen.items()]
    worst = sorted(counts, key=lambda row: (-row[1] / row[2], -row[2], row[0]))[:_MOST_LINES]
    rows = [[name, f"{missed} of {answered}", ""] for name, missed, answered in worst if missed]
    head = ["question", "missed by", "what the room said"]
    return ["## Predictions that most missed", "", *_table(head, rows, "None was missed.")]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], none: str = "Nothing was answered.") -> list[str]:
    """As Markdown, with an empty line below."""
    if not rows:
        return [none, ""]
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]
