"""04.gradients: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_04.gradients.cases import (
    EQUAL,
    FIRST,
    FROZEN,
    MIXED,
    ONE_LAYER,
    PLAIN,
    UNUSED,
    GradientsReport,
    num_users,
    prepared,
)
from course_lib.learn.judging.errors import is_deadlock
from course_lib.learn.judging.report import Recogniser, always, both, only_wrong, reports

NOT_USED_BY_ALL = (EQUAL, FIRST, UNUSED, MIXED)


def _compared(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, int, dict[str, Tensor], Mapping[str, Any]]]:
    """Each outcome with values: itself, its world size, the gradients expected and those that came."""
    for outcome, report in reports(evidence, GradientsReport):
        yield outcome, outcome.num_ranks, outcome.expected.values, report.values


def _factor(want: dict[str, Tensor], got: Mapping[str, Any]) -> float | None:
    """The one number by which all gradients are too large; None where there is none."""
    if not all(isinstance(gradient, Tensor) and gradient.shape == want[name].shape for name, gradient in got.items()):
        return None
    wanted, came = (torch.cat([each[name].flatten() for name in want]) for each in (want, got))
    factor = float(came @ wanted / (wanted @ wanted))
    return factor if torch.allclose(came, factor * wanted, rtol=1e-7, atol=1e-9) else None


def sums_what_was_there(evidence: Evidence) -> bool:
    """Whether each gradient that came is the sum of all ranks', and some are missing."""
    if evidence.error is not None:
        return False
    all_there = True
    for _, world_size, want, got in _compared(evidence):
        there = {name: gradient for name, gradient in got.items() if isinstance(gradient, Tensor)}
        factor = _factor({name: want[name] for name in there}, there)
        if factor is None or abs(factor - world_size) > 1e-6:
            return False
        all_there = all_there and len(there) == len(got)
    return not all_there


def assigns_another_type(evidence: Evidence) -> bool:
    """Whether PyTorch refused a gradient for its type where a rank had none."""
    error = evidence.error
    return (
        error is not None
        and "assign" in error.message
        and "gradient" in error.message
        and "type" in error.message
        and evidence.wrong[0].case.startswith(NOT_USED_BY_ALL)
    )


def divides_alike(evidence: Evidence) -> bool:
    """Whether each sum was divided by one number, the same for every number of ranks."""
    factors = [(world_size, _factor(want, got)) for _, world_size, want, got in _compared(evidence)]
    divisors = [world_size / factor for world_size, factor in factors if factor]
    if evidence.error is not None or not factors or len(divisors) < len(factors):
        return False
    return max(divisors) - min(divisors) < 1e-6 and abs(divisors[0] - 1) > 1e-6


def counts_users(evidence: Evidence) -> bool:
    """Whether all is right but the layers that some ranks did not use, which are too large by that count."""
    if evidence.error is not None:
        return False
    for outcome, world_size, want, got in _compared(evidence):
        label = outcome.case.rpartition(", rank")[0]
        for name, gradient in want.items():
            users, have = num_users(label, name, world_size), got[name]
            if not isinstance(have, Tensor):
                return False
            by_nobody = not users and bool(have.isnan().all())  # 0 divided by 0
            factor = world_size / users if users else 1.0
            if not by_nobody and not torch.allclose(have, gradient * factor, rtol=1e-7, atol=1e-9):
                return False
    return True


def nearly_right_and_shorter(evidence: Evidence) -> bool:
    """Whether the values are right to a few digits, and fewer bytes were sent than numbers of this type need."""
    for outcome, _, want, got in _compared(evidence):
        if not all(isinstance(g, Tensor) and torch.allclose(g, want[n], rtol=0.05, atol=0.05) for n, g in got.items()):
            return False
        if outcome.got.sent > 0.7 * outcome.expected.sent:
            return False
    return evidence.error is None


def kept_own_and_sent(low: float, high: float) -> Recogniser:
    return both(_own_gradients, always(GradientsReport, lambda outcome, report: low <= report.sent <= high))


def _own_gradients(evidence: Evidence) -> bool:
    """Whether every rank kept what its own backward pass had left, where that is easy to tell."""
    plain = [outcome for outcome in evidence.outcomes if outcome.case.startswith(PLAIN)]
    return evidence.error is None and bool(plain) and all(map(_is_own, plain))


def _is_own(outcome: AnswerOutcome) -> bool:
    own = prepared(PLAIN, outcome.rank)
    return all(
        isinstance(gradient, Tensor) and torch.equal(gradient, own.get_parameter(name).grad)  # type: ignore[arg-type]
        for name, gradient in outcome.got.values.items()
    )


def asks_none_where_frozen(evidence: Evidence) -> bool:
    """Whether the first error came with the frozen layer, and is about None."""
    error = evidence.error
    about_none = error is not None and "None" in error.message
    return about_none and evidence.wrong[0].case.startswith(FROZEN)


def in_another_order(evidence: Evidence) -> bool:
    """Whether the layers of one size are right together, and not one by one."""
    equal = [each for each in _compared(evidence) if each[0].case.startswith(EQUAL)]
    if not equal or evidence.wrong[0].case.partition(", rank")[0] != EQUAL:
        return False
    return all(
        all(isinstance(gradient, Tensor) for gradient in got.values())
        and torch.allclose(torch.stack([*got.values()]).sum(0), torch.stack([*want.values()]).sum(0))
        for _, _, want, got in equal
    )


def sends_flat_tensors_of_other_sizes(evidence: Evidence) -> bool:
    """Whether ranks stopped in a call for more numbers than a layer has, where all layers are of one size."""
    error = evidence.error
    if error is None or not is_deadlock(evidence) or not evidence.wrong[0].case.startswith(EQUAL):
        return False
    calls = [stand for stand in evidence.stands.ranks if stand.call == "all_reduce" and stand.dtype == "float64"]
    return any(len(call.shape) == 1 and call.shape[0] > ONE_LAYER for call in calls if call.shape is not None)


def stops_where_unused(evidence: Evidence) -> bool:
    """Whether frozen layers went well, and ranks waited for each other where one of them did not use a layer."""
    return is_deadlock(evidence) and not _too_small(evidence) and evidence.wrong[0].case.startswith(NOT_USED_BY_ALL)


def sends_another_type(evidence: Evidence) -> bool:
    """Whether a tensor for one layer had fewer bytes than the others', where all layers are of one size."""
    return _too_small(evidence)


def _too_small(evidence: Evidence) -> bool:
    stopped = next((one for one in evidence.outcomes if one.error is not None), None)
    if stopped is None or stopped.error is None or not stopped.case.startswith(EQUAL):
        return False  # elsewhere layers differ in size, and calls in another order do as well
    return evidence.stands.too_large == "collective" and not sends_flat_tensors_of_other_sizes(evidence)


makes_new_tensors = only_wrong("replaced")


def sends_for_frozen(evidence: Evidence) -> bool:
    """Whether the values are right, and too much was sent only where something is frozen."""
    return only_wrong("sent", "beside")(evidence) and all(
        outcome.case.startswith((FROZEN, MIXED)) for outcome in evidence.wrong
    )


def loses_gradients(evidence: Evidence) -> bool:
    return evidence.error is None and any(
        isinstance(gradient, str) for *_, got in _compared(evidence) for gradient in got.values()
    )


def everything_to_everybody(evidence: Evidence) -> bool:
    """Whether the values are right, and each of four ranks sent its gradients three times or more."""
    sent = [report.sent for outcome, report in reports(evidence, GradientsReport) if outcome.case.endswith("of 4")]
    return bool(sent) and min(sent) >= 3.0 and only_wrong("sent")(evidence)
