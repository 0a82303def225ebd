"""09.norm: how usual wrong answers are told by the number that they give, and by where they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_09.norm.cases import (
    MANY,
    NAN,
    ORDER,
    REPLICAS,
    SHARDS,
    SHORT,
    SILENT,
    NormReport,
    mesh_of,
    norm_of,
    pieces_of,
)
from course_lib.learn.judging.errors import is_deadlock, raised_first_in
from course_lib.learn.judging.report import differing, only_in, only_wrong, reports

__all__ = [
    "Weigh",
    "adds",
    "adds_in_float32",
    "asks_none_for_its_numbers",
    "counts",
    "hides_a_nan",
    "is_right_on_rank_0_alone",
    "keeps_something",
    "knows_no_cp",
    "only_short_is_wrong",
    "own",
    "right_weight",
    "takes_pairs_out",
    "takes_rows_for_granted",
    "times",
]

Weigh = Callable[["NormTry", dict[str, int], Sequence[str]], float]


@dataclass(frozen=True)
class NormTry:
    """One rank in one case, and what it gave."""

    kind: str
    rank: int
    num_ranks: int
    gave: Any

    @property
    def mesh(self) -> Mesh:
        return mesh_of(self.kind, self.num_ranks)

    @property
    def right(self) -> float:
        return norm_of(self.kind, self.num_ranks)

    def square_of(self, rank: int, weigh: Weigh) -> float:
        """A rank's sum of squares, where a gradient counts ``weigh(try, place of the rank, axes that copy it)``."""
        here, total = self.mesh.coordinates(rank), 0.0
        for gradient, cut_by in pieces_of(self.kind, rank, self.num_ranks):
            if gradient is not None:
                copied = [axis for axis in self.mesh.axes if axis not in cut_by]
                total += weigh(self, here | {"rank": rank}, copied) * float(gradient.double().square().sum())
        return total

    def squares(self, weigh: Weigh) -> list[float]:
        return [self.square_of(rank, weigh) for rank in range(self.num_ranks)]


def right_weight(_: NormTry, here: dict[str, int], copied: Sequence[str]) -> float:
    return float(not any(here[axis] for axis in copied))


def _tries(evidence: Evidence) -> Iterator[NormTry]:
    for outcome, report in reports(evidence, NormReport):
        if outcome.kind != NAN:  # with a NaN every number is NaN, however it was counted
            yield NormTry(outcome.kind, outcome.rank, outcome.num_ranks, report.norm.value)


def _is(have: Any, want: float) -> bool:
    return isinstance(have, float) and isclose(have, want, rel_tol=1e-5, abs_tol=1e-9)


def _gave(evidence: Evidence, number: Callable[[NormTry], float]) -> bool:
    tries = list(_tries(evidence))
    return evidence.error is None and bool(tries) and all(_is(one.gave, number(one)) for one in tries)


def _by_any(weighs: Sequence[Weigh], number: Callable[[NormTry, Weigh], float]) -> Callable[[Evidence], bool]:
    """Whether this number was given in every case, for one of these ways to count."""

    def gave_by(weigh: Weigh) -> Callable[[Evidence], bool]:
        return lambda evidence: _gave(evidence, lambda one: number(one, weigh))

    return lambda evidence: any(gave_by(weigh)(evidence) for weigh in weighs)


def counts(*weighs: Weigh) -> Callable[[Evidence], bool]:
    """Whether all that was given is the norm in which gradients count so, by one of these ways in every case."""
    return _by_any(weighs, lambda one, weigh: sum(one.squares(weigh)) ** 0.5)


def own(*weighs: Weigh) -> Callable[[Evidence], bool]:
    """Whether every rank gave the norm of what it counts itself."""
    return _by_any(weighs, lambda one, weigh: one.square_of(one.rank, weigh) ** 0.5)


adds = _by_any((right_weight, lambda *_: 1.0), lambda one, weigh: sum(s**0.5 for s in one.squares(weigh)))


def times(factor: Callable[[NormTry], float]) -> Callable[[Evidence], bool]:
    """Whether the right norm times this was given."""
    return lambda evidence: _gave(evidence, lambda one: one.right * factor(one))


def is_right_on_rank_0_alone(evidence: Evidence) -> bool:
    """Whether rank 0 is right in every case, and on more ranks than one another is not."""
    tries = list(_tries(evidence))
    return (
        evidence.error is None
        and all(_is(one.gave, one.right) for one in tries if one.rank == 0)
        and any(not _is(one.gave, one.right) for one in tries if one.rank)
    )


def adds_in_float32(evidence: Evidence) -> bool:
    """Whether norms alone are wrong, and those of gradients in float64 from the seventh digit on."""
    return only_wrong("norm")(evidence) and all(
        isinstance(one.gave, float) and isclose(one.gave, one.right, rel_tol=1e-6)
        for one in _tries(evidence)
        if one.kind != SHORT
    )


def only_short_is_wrong(evidence: Evidence) -> bool:
    """Whether gradients in bfloat16 alone make a wrong norm, and one that is nearly right."""
    short = [one for one in _tries(evidence) if one.kind == SHORT]
    return (
        evidence.error is None
        and all(outcome.case.startswith(SHORT) and differing(outcome) == {"norm"} for outcome in evidence.wrong)
        and all(isinstance(one.gave, float) and isclose(one.gave, one.right, rel_tol=0.05) for one in short)
    )


def hides_a_nan(evidence: Evidence) -> bool:
    """Whether a NaN alone makes a wrong norm, and one that is a number."""
    return evidence.error is None and all(
        one.case.startswith(NAN) and differing(one) == {"norm"} and isinstance(one.got.norm.value, float)
        for one in evidence.wrong
    )


def keeps_something(evidence: Evidence) -> bool:
    """Whether the norm is wrong only where there were calls before."""
    return evidence.error is None and only_in(SHARDS)(evidence) and only_wrong("norm")(evidence)


def knows_no_cp(evidence: Evidence) -> bool:
    """Whether copies along an axis cp are counted each, and nothing else is wrong."""
    without = counts(lambda _, here, copied: float(not any(here[axis] for axis in copied if axis != "cp")))
    return without(evidence) and all(MANY in outcome.case for outcome in evidence.wrong)


def takes_pairs_out(evidence: Evidence) -> bool:
    """Whether nothing is wrong but that the list of pairs is shorter than it was."""
    return only_wrong("kept")(evidence) and all("items and has" in outcome.got.kept for outcome in evidence.wrong)


# -- what ended with an error -------------------------------------------------------------------------------------


def asks_none_for_its_numbers(evidence: Evidence) -> bool:
    """Whether an error about None is the first thing that is wrong, in a case where some gradients are None."""
    error = evidence.error
    return (
        error is not None
        and not is_deadlock(evidence)
        and "None" in error.message
        and evidence.wrong[0].case.startswith((REPLICAS, SILENT))
    )


def takes_rows_for_granted(evidence: Evidence) -> bool:
    """Whether ``view`` would not take a tensor that is stored by column."""
    return raised_first_in(ORDER)(evidence) and "view size is not compatible" in str(evidence.error)
