"""What a cluster that nobody has measured lacks: how far the error falls once one of its own constants is known.

A published row does not say which share of its peaks a cluster reaches. Here each constant in turn is taken from the
cluster's own profile, which all its runs were fitted to, while the others stay typical. What all of its own together
leave is what the formulas miss, or what runs of one cluster differ by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import NamedTuple

from course_lib.plan.inputs.constants import KINDS, Constants
from course_lib.plan.runs.kept_apart import KeptApart

__all__ = ["Missing", "missing_facts", "report_missing"]

_WORTH_A_LOOK = 0.08  # of a table's mean error
_TIMED = tuple(name for name in KINDS if name != "reserve_bytes")


class Missing(NamedTuple):
    """Mean absolute errors of a table's steps, as shares: as judged, by the constant that is known, and with all."""

    typical: float
    known: dict[str, float]
    own: float

    def record(self) -> dict[str, object]:
        """As JSON keeps it."""
        known = {name: round(error, 4) for name, error in self.known.items()}
        return {"typical": round(self.typical, 4), "known": known, "own": round(self.own, 4)}


def missing_facts(ones: Sequence[KeptApart]) -> dict[str, Missing]:
    """By table, of those whose mean error is above 8 %."""
    tables: dict[str, list[KeptApart]] = defaultdict(list)
    for one in ones:
        if one.run.run.step_s:
            tables[one.run.run.table].append(one)
    found = {}
    for table, rows in tables.items():
        typical = mean(_error(one, one.constants) for one in rows)
        if typical > _WORTH_A_LOOK:
            known = {name: mean(_error(one, _with_own(one, name)) for one in rows) for name in _TIMED}
            found[table] = Missing(typical, known, mean(_error(one, one.run.profile.constants) for one in rows))
    return found


def report_missing(ones: Sequence[KeptApart]) -> None:
    """Print a line for each of these tables: its error, with each of two constants known, and with all."""
    print("\n== of tables with a mean error above 8 %: the error once the cluster's own value of one constant is known")
    for table, one in missing_facts(ones).items():
        best = sorted(one.known.items(), key=lambda item: item[1])[:2]
        known = ", ".join(f"with {name} {error:.1%}" for name, error in best)
        print(f"{table:24} {one.typical:6.1%}; {known}; with all {one.own:.1%}")


def _error(one: KeptApart, constants: Constants) -> float:
    return abs(one.run.step_s(constants) / (one.run.run.step_s or 1.0) - 1)


def _with_own(one: KeptApart, name: str) -> Constants:
    return replace(one.constants, **{name: getattr(one.run.profile.constants, name)})
