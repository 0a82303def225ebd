"""Problems and their ways as text, and as the HTML of a page that is only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.base.html import templates
from course_lib.forms.show import Shown, escape
from course_lib.learn.catalogue.problem_spec import Posed

__all__ = ["WorkedSolution", "WorkedSolutions", "way_as_html", "way_as_text"]

_fill = templates(__file__, words=escape)


def way_as_text(drawn: Posed) -> list[str]:
    """The steps, numbered, then where the numbers come from, then what somebody has measured."""
    lines = [f"{number}. {step}" for number, step in enumerate(drawn.way, start=1)]
    lines += [f"Measured: {drawn.beside}"] if drawn.beside else []
    return [*lines, *(f"Source: {source}" for source in drawn.sources)]


def way_as_html(drawn: Posed) -> str:
    return _fill("way.html", way=drawn.way, beside=drawn.beside, sources=drawn.sources)


@dataclass(frozen=True, repr=False)
class WorkedSolution(Shown):
    """The way to one answer."""

    title: str
    drawn: Posed

    def __repr__(self) -> str:
        return "\n".join([f"{self.title}: the way", *way_as_text(self.drawn)])

    def _html(self) -> str:
        return _fill("ways.html", problems=[(self.title, "", way_as_html(self.drawn))])


@dataclass(frozen=True, repr=False)
class WorkedSolutions(Shown):
    """All problems of a lesson, each with its way: for who reads and does not run."""

    problems: Sequence[tuple[str, Posed]]

    def __repr__(self) -> str:
        parts = []
        for number, (title, drawn) in enumerate(self.problems, start=1):
            parts.append("\n".join([f"{number}. {title}", drawn.text, *(f"   {line}" for line in way_as_text(drawn))]))
        return "\n\n".join(parts)

    def _html(self) -> str:
        numbered = enumerate(self.problems, start=1)
        rows = [(f"{number}. {title}", drawn.text, way_as_html(drawn)) for number, (title, drawn) in numbered]
        return _fill("ways.html", problems=rows)
