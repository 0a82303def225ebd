"""10.interleave: how usual wrong answers are told, by the order of their calls and by what came out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_10.interleave.trial import OrderReport
from course_lib.learn.judging.compare import difference
from course_lib.learn.judging.report import Recogniser, always, differing, only_wrong, reports

__all__ = [
    "between_layers",
    "computes_first",
    "computes_twice",
    "has_one_twice",
    "is_swapped",
    "leaves_in_flight",
    "leaves_steps_out",
    "waits_at_once",
    "waits_for_combine",
    "waits_for_dispatch",
]


def _when_needless(holds: Callable[[OrderReport], bool]) -> Recogniser:
    """Where nothing but the waiting is wrong: whether this holds wherever it is."""

    def recognise(evidence: Evidence) -> bool:
        late = [one for at, one in reports(evidence, OrderReport) if "waited" in differing(at)]
        return only_wrong("waited")(evidence) and all(map(holds, late))

    return recognise


def _behind_computing(report: OrderReport, word: str = "") -> list[bool]:
    """Of each exchange with this word in its name: whether anything was computed between its start and its wait."""
    found = []
    for place, (kind, name) in enumerate(report.calls):
        if kind == "wait" and word in name:
            start = report.calls.index(("start", name))
            found.append(any(call[0] == "compute" for call in report.calls[start:place]))
    return found


def _two_in_a_row(report: OrderReport) -> bool:
    """Whether anywhere two steps are computed, and no exchange is started between them."""
    kinds = [kind for kind, _ in report.calls if kind != "wait"]
    return any(one == other == "compute" for one, other in pairwise(kinds))


def _waits_for_both_at_once(report: OrderReport) -> bool:
    """Whether the two waits for what comes back stand side by side wherever there are two."""
    back = [place for place, (kind, name) in enumerate(report.calls) if kind == "wait" and "back in" in name]
    return all(second == first + 1 for first, second in zip(back[::2], back[1::2], strict=False))


def _when_steps(hold: Callable[[int, int], bool]) -> Recogniser:
    """Where nothing but the number of steps is wrong: whether this holds of what it is to be, and of what it is."""

    def recognise(evidence: Evidence) -> bool:
        odd = [(at.expected.steps, one.steps) for at, one in reports(evidence, OrderReport) if "steps" in differing(at)]
        return bool(odd) and only_wrong("steps", "waited")(evidence) and all(hold(*pair) for pair in odd)

    return recognise


computes_twice = _when_steps(lambda needed, made: made > needed)
_makes_fewer = _when_steps(lambda needed, made: made < needed)
_WITHOUT_TOKENS = ("a micro-batch without tokens", "no tokens at all")


def leaves_steps_out(evidence: Evidence) -> bool:
    return _makes_fewer(evidence) and all(one.case in _WITHOUT_TOKENS for one in evidence.wrong)


waits_at_once = _when_needless(lambda report: not any(_behind_computing(report)))
computes_first = _when_needless(_two_in_a_row)
waits_for_combine = _when_needless(
    lambda report: any(_behind_computing(report, "to the")) and not any(_behind_computing(report, "back"))
)
waits_for_dispatch = _when_needless(
    lambda report: any(_behind_computing(report, "back")) and not any(_behind_computing(report, "to the"))
)
between_layers = _when_needless(
    lambda report: (
        all(_behind_computing(report, "to the"))
        and all(_behind_computing(report, "the first exchange back"))
        and not any(_behind_computing(report, "the second exchange back"))
        and _waits_for_both_at_once(report)
    )
)


def _always_out(holds: Callable[..., bool]) -> Recogniser:
    """Whether this holds of the two right outputs, and of what came in their place."""
    return always(OrderReport, lambda at, report: holds(at.expected.out[0], at.expected.out[1], report.out))


def _same(one: Any, other: Any) -> bool:
    return not difference(one, other, relative=1e-9, absolute=1e-12)


is_swapped = _always_out(lambda a, b, out: _same(b, out[0]) and _same(a, out[1]))
has_one_twice = _always_out(lambda a, b, out: all(_same(a, one) for one in out) or all(_same(b, one) for one in out))
leaves_in_flight = _always_out(lambda a, b, out: any(isinstance(one, str) and "in flight" in one for one in out))
