"""The plans of docs/instructor/plans.md, row by row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from course_lib.base.chosen_name import chosen_name

__all__ = ["ClassPlan", "ClassPlanRow", "class_plan", "class_plans", "plain"]

_PLAN = re.compile(r"^## ([^\n]*) \((\d+) minutes\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"\[(\d\d[a-z]?)\]\([^)]*\)(?:, up to \*(.*)\*)?$")
_ASK = re.compile(r"""\bask\(["'](\d\d\.\w+)["']\)""")


@dataclass(frozen=True)
class ClassPlanRow:
    """A row of a plan: minutes, what is done, what the room does, and what to leave out when it is late."""

    minutes: int
    what: str
    room: str
    behind: str

    @property
    def part(self) -> str:
        """The part that is worked on, as "04a"; "" for a row that is none."""
        found = _PART.match(self.what)
        return found[1] if found else ""

    @property
    def asks(self) -> list[str]:
        """The questions for which the room stops here, by their names; none while a part is worked on."""
        return [] if self.part else _ASK.findall(self.room)


@dataclass(frozen=True)
class ClassPlan:
    """A plan: its title, its minutes, its rows."""

    title: str
    minutes: int
    rows: tuple[ClassPlanRow, ...]


def class_plans(root: Path) -> list[ClassPlan]:
    """The plans below ``root``. Raises ``ValueError`` where the page with them is missing or has none."""
    page = root / "docs" / "instructor" / "plans.md"
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{page} cannot be read: {error.strerror or error}") from None
    plans = [ClassPlan(title, int(minutes), tuple(_rows(body))) for title, minutes, body in _PLAN.findall(text)]
    if not plans:
        raise ValueError(f"{page} has no plan; a plan is a heading that ends in (90 minutes), and a table below it")
    return plans


def class_plan(words: str, root: Path) -> ClassPlan:
    """The plan of this title, or the one that alone has these words. Raises ``ValueError`` with those there are."""
    plans = {plan.title: plan for plan in class_plans(root)}
    return plans[chosen_name(words, [*plans], what="plan")]


def plain(text: str) -> str:
    """A cell of the page without its links: what they lead to is on another machine's disk."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()


def _rows(body: str) -> list[ClassPlanRow]:
    lines = re.findall(r"^\| *\d.*$", body, re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [ClassPlanRow(int(minutes), what, room, behind) for minutes, what, room, behind in cells]
