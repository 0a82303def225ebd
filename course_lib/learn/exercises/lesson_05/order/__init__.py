"""05.order: when to gather a unit, and when to let it go, where only some may be whole at a time.

An answer is judged by running it: on a rank that computes one unit after the other, and a link that carries one
all-gather after the other. A search over every order of up to five units, with one to three whole, has found none that
is shorter than ``shortest_order`` (``tests/lessons/test_lesson_05_order.py`` has a small one).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_05.order import wrong_answers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["ORDER", "fault_in", "shortest_order", "step_time"]

_SIZES = ((4, 2), (6, 3), (3, 1), (1, 1), (2, 4), (5, 5), (8, 2), (7, 4))  # units, and how many may be whole
_GATHERS = (0.5, 1.0, 2.0, 5.0)  # how long an all-gather takes, in forwards of a unit
_BACKWARD = 2.0  # of a unit, in forwards
_WORD = re.compile(r"([GFBR])(-?\d+)")


def shortest_order(num_units: int, most_whole: int) -> list[str]:
    """Before each use, unsharded or in flight are the ``most_whole`` units that are used next, counting from it."""
    uses = _uses(num_units)
    order: list[str] = []
    held: list[int] = []
    for place, (kind, unit) in enumerate(uses):
        wanted = list(dict.fromkeys(unit for _, unit in uses[place:]))[:most_whole]
        order += [f"R{one}" for one in held if one not in wanted]
        order += [f"G{one}" for one in wanted if one not in held]
        order.append(f"{kind}{unit}")
        held = wanted
    return [*order, *(f"R{one}" for one in held)]


def _uses(num_units: int) -> list[tuple[str, int]]:
    return [("F", unit) for unit in range(num_units)] + [("B", unit) for unit in reversed(range(num_units))]


def step_time(order: Sequence[str], gather: float) -> float:
    """How long an order that can run takes, in forwards of a unit, if an all-gather takes ``gather`` of them."""
    now = link_free = 0.0
    there: dict[str, float] = {}  # when a unit is whole
    for word in order:
        kind, unit = word[0], word[1:]
        if kind == "G":
            link_free = max(link_free, now) + gather
            there[unit] = link_free
        elif kind != "R":
            now = max(now, there[unit]) + (1.0 if kind == "F" else _BACKWARD)
    return now


@dataclass
class _Run:
    """An order, word by word, until one of them cannot be done."""

    num_units: int
    most_whole: int
    whole: list[int] = field(default_factory=list)
    been: set[int] = field(default_factory=set)  # whole at some time
    left: list[tuple[str, int]] = field(default_factory=list)  # uses to come

    def fault(self, words: Sequence[str]) -> str:
        """What is wrong, in words; empty where the order can run and leaves nothing."""
        self.left = _uses(self.num_units)
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                return f"{word!r} is no word such as G2, F2, B2 or R2"
            kind, unit = match[1], int(match[2])
            if unit not in range(self.num_units):
                return f"{word} names unit {unit}, and the units are 0 to {self.num_units - 1}"
            said = {"G": self.gather, "R": self.let_go}.get(kind, self.use)(kind, unit)
            if said:
                return said
        if self.left:
            return f"{''.join(map(str, self.left[0]))} is missing"
        if self.whole:
            return f"after the last word {_listed(self.whole)} still whole"
        return ""

    def gather(self, kind: str, unit: int) -> str:
        if unit in self.whole:
            return f"G{unit} gathers a unit that is whole, or on its way, already"
        self.whole.append(unit)
        self.been.add(unit)
        if len(self.whole) > self.most_whole:
            return f"after G{unit} {len(self.whole)} units are whole or on their way, and {self.most_whole} may be"
        return ""

    def let_go(self, kind: str, unit: int) -> str:
        if unit not in self.whole:
            return f"R{unit} lets a unit go that is not whole"
        self.whole.remove(unit)
        return ""

    def use(self, kind: str, unit: int) -> str:
        if not self.left:
            return f"{kind}{unit} comes after all forwards and backwards are done"
        if (kind, unit) != self.left[0]:
            return f"{kind}{unit} comes where {''.join(map(str, self.left[0]))} has its turn"
        if unit not in self.whole:
            again = " again" if unit in self.been else ""
            return f"{kind}{unit} comes before its unit is gathered{again}"
        self.left.pop(0)
        return ""


def _listed(units: Sequence[int]) -> str:
    if len(units) == 1:
        return f"unit {units[0]} is"
    return f"units {', '.join(map(str, sorted(units)))} are"


def fault_in(words: Sequence[str], num_units: int, most_whole: int) -> str:
    """What is wrong with an order: it cannot run, gathers too often, or takes too long. Empty where nothing is."""
    said = _Run(num_units, most_whole).fault(words)
    if said:
        return said
    right = shortest_order(num_units, most_whole)
    found, enough = (sum(word[0] == "G" for word in order) for order in (words, right))
    if found > enough:
        return f"it begins {found} all-gathers, and {enough} would do"
    for gather in _GATHERS:
        takes, shortest = step_time(words, gather), step_time(right, gather)
        if takes > shortest + 1e-9:
            return (
                f"if an all-gather takes {gather:g} times as long as a forward, and a backward {_BACKWARD:g} times, "
                f"the step takes {takes:g} forwards, and {shortest:g} would do"
            )
    return ""


# -- the judge --------------------------------------------------------------------------------------------------


def _right(num_units: int, most_whole: int) -> dict[str, int]:
    return {"units": num_units, "whole": most_whole}


def _call(answer: Any, num_units: int, most_whole: int) -> Any:
    """The words as a list, whether they came as a text, a tuple, an array or a generator."""
    order = answer(num_units, most_whole)
    if isinstance(order, str):
        return order.split()
    if hasattr(order, "tolist"):
        return order.tolist()
    return list(order) if isinstance(order, tuple | Iterator) else order


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "the orders differ"
    if not isinstance(got, list) or not all(isinstance(word, str) for word in got):
        return f"expected a list such as ['G0', 'F0', 'B0', 'R0'], got {short(got)}"
    return fault_in([word.strip().upper() for word in got], expected["units"], expected["whole"])


ORDER = Exercise(
    name="05.order",
    may_yield=True,
    title="The order of a step",
    judge=by_cases_apart(
        [Case(f"{n} unit{'s' * (n > 1)}, {most} whole at a time", (n, most), _right) for n, most in _SIZES],
        call=_call,
        compare=_compare,
    ),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Write the words for four units, of which two may be whole, by hand. What is whole when the last forward is "
        "done?",
        "Begin with as many all-gathers as there is room for. From then on every unit that is let go makes room for "
        "one: the next that is used and not whole. Near the end of forward there is none, so nothing is let go "
        "there.",
        "Forward: after F{unit}, if unit + most_whole < num_units, R{unit} and G{unit + most_whole}. Backward: "
        "B{unit}, R{unit}, and, if unit >= most_whole, G{unit - most_whole}.",
    ),
    passed="The step takes no longer than necessary, no more units are whole than are allowed, and those that are "
    "whole when backward begins stay whole.",
)
