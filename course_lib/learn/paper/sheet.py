"""The problems of a lesson with one learner's numbers: which are solved, and what is said about an answer.

Numbers stay while a problem is open, also when the notebook is opened again, and are drawn anew for each further try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.learn.catalogue.problem_spec import PaperProblem, Posed
from course_lib.learn.paper.judge import is_right, sentence_on
from course_lib.learn.paper.typed import typed
from course_lib.learn.records.own_number import number_of, whose
from course_lib.learn.records.store import record, store

__all__ = ["ProblemSheet", "ProblemStanding"]

_SEEDS = 10**6
_MOST_DRAWS = 20  # until the numbers are others


@dataclass
class ProblemStanding:
    """How one problem stands: the seed of its numbers, and what has been done with them."""

    seed: int
    tries: int = 0
    is_right: bool = False
    is_shown: bool = False  # the way was looked at

    @property
    def is_over(self) -> bool:
        return self.is_right or self.is_shown


class ProblemSheet:
    """The problems of a lesson, with how each of them stands, by its name."""

    def __init__(self, lesson: str, problems: Sequence[PaperProblem]) -> None:
        self.lesson, self.problems = lesson, tuple(problems)
        kept = store()
        events = kept.read()
        base = "" if kept.path is None else whose()
        self.standing = {one.name: _standing(one.name, events, base) for one in self.problems}

    def problem(self, name: str) -> PaperProblem:
        """By its name, or by its word alone. Raises ``ValueError`` with the names there are."""
        for one in self.problems:
            if name in (one.name, one.name.partition(".")[2]):
                return one
        raise ValueError(f"Lesson {self.lesson} has no problem {name!r}; it has {', '.join(self.standing)}.")

    def drawn(self, one: PaperProblem) -> Posed:
        """The problem with the numbers that it has now."""
        return one.drawn(self.standing[one.name].seed)

    def feedback(self, one: PaperProblem, text: str) -> str:
        """Judge what was typed, count the try, and say what there is to be said.

        Raises ``ValueError`` for what is no number in this unit; that is no try.
        """
        standing, drawn = self.standing[one.name], self.drawn(one)
        value = typed(text, one.unit)
        if standing.is_shown and not standing.is_right:
            return f"The way has been shown, so this cannot be answered. {_anew(one)}"
        if not standing.is_right:
            standing.tries += 1
            standing.is_right = is_right(drawn, value)
            fields: dict[str, Any] = {"seed": standing.seed, "right": standing.is_right, "tries": standing.tries}
            record("problem", one.name, value=value, unit=one.unit, **fields)
        return sentence_on(drawn, value, one.unit)

    def show_way(self, one: PaperProblem) -> Posed:
        """The way, which ends this try."""
        standing = self.standing[one.name]
        if not standing.is_over:
            record("problem", one.name, seed=standing.seed, shown=True, tries=standing.tries)
        standing.is_shown = True
        return self.drawn(one)

    def draw_anew(self, one: PaperProblem) -> None:
        """Other numbers, and an open problem."""
        before, seed = self.drawn(one).text, self.standing[one.name].seed
        for _ in range(_MOST_DRAWS):
            seed = _number(f"{one.name} after {seed}")
            if one.drawn(seed).text != before:
                break
        self.standing[one.name] = ProblemStanding(seed)
        record("problem", one.name, seed=seed, tries=0)

    def count(self) -> str:
        """How far the sheet is, in a sentence."""
        right = sum(standing.is_right for standing in self.standing.values())
        return f"{right} of {len(self.problems)} problems solved with the numbers that stand here."


def _anew(one: PaperProblem) -> str:
    return f'`problems("{one.name[:2]}").anew("{one.name}")` draws other numbers.'


def _standing(name: str, events: Iterable[Mapping[str, Any]], base: str) -> ProblemStanding:
    """From what is kept; where nothing is, with numbers of one's own, or those of seed 0 under tests."""
    standing = ProblemStanding(_number(f"{base} {name}") if base else 0)
    for event in events:
        if event["event"] != "problem" or event["name"] != name or not isinstance(event.get("seed"), int):
            continue
        if event["seed"] != standing.seed:
            standing = ProblemStanding(event["seed"])
        tries = event.get("tries", 0)
        standing.tries = tries if isinstance(tries, int) else 0
        standing.is_right = standing.is_right or event.get("right") is True
        standing.is_shown = standing.is_shown or event.get("shown") is True
    return standing


def _number(text: str) -> int:
    return number_of(text) % _SEEDS
