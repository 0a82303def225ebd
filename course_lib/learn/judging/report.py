"""A report: what a trial saw of an answer, in fields that say how each is compared and how a difference is told.

::

    @dataclass(frozen=True, kw_only=True)
    class SumReport(RankReport):
        asked_for = "a tensor"
        total: Any = fact("the sum: {difference}", by=close_to(1e-9))
        sent: str = fact("the sum is right, and this rank sent {got}", right="no more than needed")

A trial returns one, and the case's ``expected`` another: a field with ``right`` need not be given there. ``compare``
tells the first field that differs. Recognisers name fields: ``only_wrong("sent")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any, ClassVar, TypeVar

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.judging.compare import Compare, difference, short

__all__ = [
    "NOTHING",
    "NOT_DEMANDED",
    "RankReport",
    "Recogniser",
    "Report",
    "always",
    "both",
    "compare",
    "differing",
    "either",
    "fact",
    "first_unwaited",
    "is_not_waited_for",
    "only_in",
    "only_wrong",
    "reports",
    "some_wrong",
    "wrong_in",
]

NOTHING = "nothing"


class _Mark(Enum):
    """No value that an answer can give: what a rank sends is the same object wherever it is read."""

    NOT_DEMANDED = "not demanded"


NOT_DEMANDED: Any = _Mark.NOT_DEMANDED  # of a fact that is expected, or came, in some cases alone
_FACT = "fact"
Recogniser = Callable[[Evidence], bool]
R = TypeVar("R", bound="Report")


@dataclass(frozen=True)
class _Fact:
    tell: Callable[[Any, Any, str], str]  # (expected, got, their difference) -> words
    by: Compare


def fact(told: str | Callable[[Any, Any, str], str], *, by: Compare = difference, right: Any = MISSING) -> Any:
    """A field that is compared, by ``by``. ``told`` makes words of a difference: a text with ``{expected}``, ``{got}``
    and ``{difference}``, or a function of the three. ``right`` is what is expected everywhere; ``NOT_DEMANDED`` is
    compared with nothing.
    """
    tell = partial(_in_words, told) if isinstance(told, str) else told
    return field(default=right, metadata={_FACT: _Fact(tell, by)})


def _in_words(told: str, expected: Any, got: Any, how: str) -> str:
    return told.format(
        expected=expected if isinstance(expected, str) else short(expected),
        got=got if isinstance(got, str) else short(got),
        difference=how,
    )


class Report:
    """A dataclass of facts; fields that are none are for recognisers alone. ``asked_for`` ends "expected ..."."""

    asked_for: ClassVar[str] = "a result"

    @classmethod
    def of(cls: type[R], facts: Mapping[str, Any]) -> R:
        """A report of these facts; those that this kind of report does not look at are left out."""
        names = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in facts.items() if name in names})

    def differing(self, got: Report) -> Iterator[tuple[str, str]]:
        """Name of each field that is not as in this report, and the difference in words, in the order of the fields."""
        for one in fields(self):  # type: ignore[arg-type]
            if _FACT in one.metadata:
                how, want, have = one.metadata[_FACT], getattr(self, one.name), getattr(got, one.name)
                if all(value is not NOT_DEMANDED for value in (want, have)) and (found := how.by(want, have)):
                    yield one.name, how.tell(want, have, found)


@dataclass(frozen=True, kw_only=True)
class RankReport(Report):
    """What a trial saw on a rank. ``unwaited``: a call that was begun there and never waited for."""

    unwaited: str = fact("this rank {got}", right=NOTHING)


def first_unwaited() -> str:
    """In a trial, on a rank: what a ``RankReport`` has as ``unwaited``."""
    from course_lib.cluster.leaks.compare import never_waited_here

    return next(iter(never_waited_here()), NOTHING)


def compare(expected: Report, got: Any) -> str:
    """The first field that is not as expected, in words; "" when there is none. It is a judge's ``compare``."""
    if not isinstance(got, type(expected)):
        return f"expected {expected.asked_for}, got {short(got)}"
    return next((told for _, told in expected.differing(got)), "")


# -- recognisers ----------------------------------------------------------------------------------------------------


def differing(outcome: AnswerOutcome) -> set[str]:
    """The names of the fields that are not as expected; "everything" where no report came."""
    if outcome.error is not None or not isinstance(outcome.got, Report):
        return {"everything"}
    return {name for name, _ in outcome.expected.differing(outcome.got)}


def only_wrong(*names: str) -> Recogniser:
    """Whether one of these fields differs somewhere, and no other, and nothing ended with an error."""

    def recognise(evidence: Evidence) -> bool:
        found = [differing(one) for one in evidence.wrong]
        return evidence.error is None and any(found) and all(one <= {*names} for one in found)

    return recognise


def only_in(*kinds: str) -> Recogniser:
    """Whether something is wrong, and in these cases alone."""
    return lambda evidence: bool(evidence.wrong) and all(one.kind in kinds for one in evidence.wrong)


def wrong_in(kind: str) -> Recogniser:
    """Whether something is wrong in this case."""
    return lambda evidence: any(one.kind == kind for one in evidence.wrong)


def some_wrong(*names: str) -> Recogniser:
    """Whether one of these fields differs somewhere, and nothing ended with an error."""
    return lambda evidence: evidence.error is None and any(differing(one) & {*names} for one in evidence.wrong)


def both(*found: Recogniser) -> Recogniser:
    """Whether all of these say so."""
    return lambda evidence: all(one(evidence) for one in found)


def either(*found: Recogniser) -> Recogniser:
    """Whether one of these says so."""
    return lambda evidence: any(one(evidence) for one in found)


def is_not_waited_for(evidence: Evidence) -> bool:
    """Whether some rank began a call and did not wait for it."""
    return any("unwaited" in differing(one) for one in evidence.wrong if one.error is None)


def reports(evidence: Evidence, kind: type[R]) -> Iterator[tuple[AnswerOutcome, R]]:
    """The reports that came, each with its outcome: the case, the rank, and of how many."""
    for outcome in evidence.outcomes:
        if outcome.error is None and isinstance(outcome.got, kind):
            yield outcome, outcome.got


def always(kind: type[R], holds: Callable[[AnswerOutcome, R], bool]) -> Recogniser:
    """Whether this holds of every report there is, of some; and nothing ended with an error."""

    def recognise(evidence: Evidence) -> bool:
        found = [holds(outcome, report) for outcome, report in reports(evidence, kind)]
        return evidence.error is None and bool(found) and all(found)

    return recognise
