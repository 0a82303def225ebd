"""What the builds of this lesson look at in calls of an object on ranks, how it is compared, and signs in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.judging.compare import Compare, difference
from course_lib.learn.judging.report import NOTHING, RankReport, Recogniser, differing, fact

__all__ = [
    "CALLABLE",
    "CallReport",
    "Outputs",
    "first_wrong_in",
    "gradients_differ",
    "near",
    "outputs_differ",
    "repeats_the_first",
    "too_many",
]

CALLABLE = "an object that can be called"


class Outputs(list[Any]):
    """What is expected of each call, and how far a number may be off, relative to the largest of its tensor."""

    within = 1e-10


def near(want: torch.Tensor, have: Any, within: float) -> str:
    """What differs, with differences up to ``within`` of the largest number left out."""
    largest = float(want.double().abs().max()) if want.numel() else 0.0
    return difference(want, have, relative=0.0, absolute=within * largest + 1e-11)


def outputs_differ(want: Outputs, have: Sequence[Any]) -> str:
    """The first call whose output is another, and how."""
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := near(due, came, want.within):
            return f"call {number}: {found}"
    return ""


def gradients_differ(name_as: str = "{}") -> Compare:
    """The first call after which a gradient is missing or another; twice as much is allowed as for outputs.

    ``name_as``: how the name of what has the gradient is written.
    """

    def differ(want: Outputs, have: Sequence[Mapping[str, Any]]) -> str:
        for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
            for name, tensor in due.items():
                if came.get(name) is None:
                    return f"after call {number}, {name_as.format(name)} has none"
                if found := near(tensor, came[name], 2 * want.within):
                    return f"after call {number}, that of {name_as.format(name)}: {found}"
        return ""

    return differ


def too_many(what: str) -> Callable[[int, int, str], str]:
    """Words for a number that is above what is expected; ``what`` has a place for it."""
    return lambda want, have, _: f"the values are right. {what.format(f'{have:,}')}, and {want:,} are enough"


@dataclass(frozen=True, kw_only=True)
class CallReport(RankReport):
    """Step 1 of both builds: the outputs."""

    made: str = fact("an object that can be called is expected, and yours is {got}", right=CALLABLE)
    outputs: Any = fact("the output, {difference}", by=outputs_differ)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)


def first_wrong_in(*kinds: str) -> Recogniser:
    """Whether the first thing that is wrong is in one of these cases."""
    return lambda evidence: bool(evidence.wrong) and evidence.wrong[0].case.startswith(kinds)


def repeats_the_first(plain_reports: Callable[[Evidence], list[tuple[AnswerOutcome, Any]]]) -> Recogniser:
    """Whether, in these reports, the second call gave what the first did wherever an output is wrong."""

    def recognise(evidence: Evidence) -> bool:
        pairs = [got.outputs[:2] for one, got in plain_reports(evidence) if "outputs" in differing(one)]
        same = [all(isinstance(out, torch.Tensor) for out in pair) and torch.equal(*pair) for pair in pairs]
        return evidence.error is None and bool(same) and all(same)

    return recognise
