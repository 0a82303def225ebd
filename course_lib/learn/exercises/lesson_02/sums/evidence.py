"""The build 02.all_reduce: what wrong answers show, by values, by what was sent, and by where they ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_02.sums.cases import (
    ALONE,
    EMPTY,
    EVEN,
    GROUP_KINDS,
    PAIR,
    UNEVEN,
    is_small,
    members_of,
    sum_of,
    tensor_of,
)
from course_lib.learn.exercises.lesson_02.sums.trial import SumReport
from course_lib.learn.judging.report import Recogniser, differing, only_wrong, reports

__all__ = [
    "COSTS",
    "all_wait_to_send",
    "drops_the_rest",
    "first_wrong_alone",
    "first_wrong_in",
    "gave",
    "holds_a_whole_one",
    "one_part_is_done",
    "one_rank_has_it",
    "one_rank_sends_all",
    "only_cost",
    "only_whole_numbers_are_off",
    "out_of_range_in_a_group",
    "sends_whole_ones",
    "sends_whole_ones_to_all",
    "sends_wider_numbers",
    "sum_is_in_another_tensor",
    "tries_wrong_in",
    "writes_to_strangers",
]

COSTS = {"sent", "messages", "extra", "kept", "rounds"}


@dataclass(frozen=True)
class SumTry:
    """One rank in one case, and what it gave."""

    outcome: AnswerOutcome
    report: SumReport

    @property
    def kind(self) -> str:
        return self.outcome.kind

    @property
    def rank(self) -> int:
        return self.outcome.rank

    @property
    def ranks(self) -> tuple[int, ...]:
        return members_of(self.kind, self.rank, self.outcome.num_ranks)

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def total(self) -> Tensor:
        return sum_of(self.kind, self.ranks)

    @property
    def own(self) -> Tensor:
        return tensor_of(self.kind, self.rank)

    @property
    def wide(self) -> torch.dtype:
        return torch.complex128 if self.total.is_complex() else torch.float64

    @property
    def sent_to(self) -> list[int | None]:
        return [call.peer for call in self.report.calls if call.operation == "send"]


def _tries(evidence: Evidence) -> Iterator[SumTry]:
    for outcome, report in reports(evidence, SumReport):
        one = SumTry(outcome, report)
        if one.ranks:
            yield one


def _together(evidence: Evidence) -> list[SumTry]:
    """Where there is more than one rank to add up, and more than nothing."""
    return [one for one in _tries(evidence) if one.world_size > 1 and one.kind != EMPTY]


def _is(have: object, want: Tensor) -> bool:
    if not isinstance(have, Tensor) or have.shape != want.shape:
        return False
    wide = torch.complex128 if have.is_complex() or want.is_complex() else torch.float64
    eps = torch.finfo(have.dtype).eps if have.is_floating_point() or have.is_complex() else 1e-9
    return torch.allclose(have.to(wide), want.to(wide), rtol=8 * eps, atol=0.5 if not have.is_floating_point() else 0.1)


# -- by values -------------------------------------------------------------------------------------------------------


def gave(value: Callable[[SumTry], Tensor]) -> Recogniser:
    """Whether this came wherever numbers were added up, and was not right in all."""

    def recognise(evidence: Evidence) -> bool:
        found = _together(evidence)
        return (
            evidence.error is None
            and any("total" in differing(one.outcome) for one in found)
            and all(_is(one.report.total, value(one)) for one in found)
        )

    return recognise


def sum_is_in_another_tensor(evidence: Evidence) -> bool:
    """Whether what is returned is right wherever the tensor that was handed in is not."""
    wrong = [one for one in _tries(evidence) if "total" in differing(one.outcome)]
    return bool(wrong) and all(
        _is(one.report.returned_total, one.total) and _is(one.report.total, one.own) for one in wrong
    )


def one_rank_has_it(evidence: Evidence) -> bool:
    """Whether in each case one rank has the sum, and the others what they had."""
    by_case: dict[tuple[str, int], list[bool]] = {}
    for one in _together(evidence):
        key, is_right = (one.kind, one.outcome.num_ranks), "total" not in differing(one.outcome)
        if not is_right and not _is(one.report.total, one.own):
            return False
        by_case.setdefault(key, []).append(is_right)
    return evidence.error is None and bool(by_case) and all(sum(right) == 1 for right in by_case.values())


def one_part_is_done(evidence: Evidence) -> bool:
    """Whether of the even tensor each rank has the sum in one part alone."""
    found = [one for one in _together(evidence) if one.kind == EVEN and one.world_size > 2]
    return bool(found) and all(map(_has_one_part, found))


def _has_one_part(one: SumTry) -> bool:
    have = one.report.total
    if not isinstance(have, Tensor) or have.shape != one.total.shape:
        return False
    pairs = zip(have.tensor_split(one.world_size), one.total.tensor_split(one.world_size), strict=True)
    return sum(torch.equal(a, b) for a, b in pairs) == 1


def drops_the_rest(evidence: Evidence) -> bool:
    """Whether what is wrong are the last numbers of uneven lengths alone."""
    wrong = [one for one in _tries(evidence) if "total" in differing(one.outcome)]  # the cost may be wrong besides
    return evidence.error is None and bool(wrong) and all(map(_lacks_the_last, wrong))


def _lacks_the_last(one: SumTry) -> bool:
    have, want = one.report.total, one.total.flatten()
    fits = len(want) // one.world_size * one.world_size
    if not isinstance(have, Tensor) or have.shape != one.total.shape or fits == len(want):
        return False
    row = have.flatten()
    return torch.equal(row[:fits], want[:fits]) and not torch.equal(row[fits:], want[fits:])


def only_whole_numbers_are_off(evidence: Evidence) -> bool:
    """Whether large whole numbers alone are wrong, and in their last digits."""
    wrong = [one for one in _tries(evidence) if "total" in differing(one.outcome)]
    return (
        evidence.error is None
        and bool(wrong)
        and all(
            one.kind == UNEVEN
            and isinstance(one.report.total, Tensor)
            and one.report.total.shape == one.total.shape
            and torch.allclose(one.report.total.double(), one.total.double(), rtol=1e-5)
            for one in wrong
        )
    )


# -- by where it ended -----------------------------------------------------------------------------------------------


def first_wrong_in(kind: str) -> Recogniser:
    """Whether the first thing that is wrong is in this case: an error, or the tensor that was handed in."""

    def recognise(evidence: Evidence) -> bool:
        first = evidence.wrong[0]
        error = first.error
        return first.kind == kind and (error.kind != "RankTimeout" if error else "total" in differing(first))

    return recognise


def first_wrong_alone(evidence: Evidence) -> bool:
    """Whether what a single rank does is wrong first."""
    first = evidence.wrong[0]
    return first.kind == ALONE and (first.error is not None or "total" in differing(first))


def all_wait_to_send(evidence: Evidence) -> bool:
    """Whether every rank that waits does so in a send."""
    error = evidence.error
    if error is None or error.kind != "RankTimeout":
        return False
    stands = evidence.stands
    return bool(stands.waiting_in("send")) and not stands.waiting_in("receive") and not stands.have_returned


def writes_to_strangers(evidence: Evidence) -> bool:
    """Whether a rank sent to one that is not in its group, or waits for one."""
    if any(peer not in one.ranks for one in _tries(evidence) if one.kind in GROUP_KINDS for peer in one.sent_to):
        return True
    error = evidence.error
    if error is None or evidence.wrong[0].kind != PAIR:
        return False
    return error.kind == "RankTimeout" or evidence.stands.too_large == "message"


def out_of_range_in_a_group(evidence: Evidence) -> bool:
    error = evidence.error
    return error is not None and error.kind == "IndexError" and evidence.wrong[0].kind in GROUP_KINDS


# -- by cost ---------------------------------------------------------------------------------------------------------


def tries_wrong_in(evidence: Evidence, *names: str) -> list[SumTry]:
    """Where one of these is wrong; nothing where something other than costs is."""
    if not only_wrong(*COSTS)(evidence):
        return []
    return [one for one in _tries(evidence) if differing(one.outcome) & {*names}]


def only_cost(name: str, *, small: bool) -> Recogniser:
    """Whether the values are right, and what is wrong first is this cost of a small tensor, or of a large one."""

    def recognise(evidence: Evidence) -> bool:
        wrong = tries_wrong_in(evidence, *COSTS)
        return bool(wrong) and name in differing(wrong[0].outcome) and is_small(wrong[0].kind) == small

    return recognise


def one_rank_sends_all(evidence: Evidence) -> bool:
    """Whether of a large tensor one rank sends whole ones to all, and every other a whole one."""
    wrong = [one for one in tries_wrong_in(evidence, "sent") if one.world_size > 2]
    by_case: dict[tuple[str, int], set[int]] = {}
    for one in wrong:
        by_case.setdefault((one.kind, one.outcome.num_ranks), set()).add(one.rank)
    return bool(by_case) and all(len(ranks) == 1 for ranks in by_case.values())


def sends_whole_ones(evidence: Evidence) -> bool:
    """Whether wherever too much is sent, each message is a whole tensor."""
    wrong = tries_wrong_in(evidence, "sent")
    return bool(wrong) and all(call.size_bytes == one.own.nbytes for one in wrong for call in one.report.calls)


def sends_whole_ones_to_all(evidence: Evidence) -> bool:
    """Whether each rank sends n - 1 whole tensors or more."""
    wrong = tries_wrong_in(evidence, "sent")
    return sends_whole_ones(evidence) and all(len(one.sent_to) >= one.world_size - 1 for one in wrong)


def sends_wider_numbers(evidence: Evidence) -> bool:
    """Whether wherever too much is sent, it is in numbers of a wider dtype."""
    wrong = tries_wrong_in(evidence, "sent")
    return bool(wrong) and all(
        one.report.calls and all(call.item_bytes > one.own.element_size() for call in one.report.calls) for one in wrong
    )


def holds_a_whole_one(evidence: Evidence) -> bool:
    """Whether wherever memory is wrong, it is a whole tensor or more."""
    wrong = tries_wrong_in(evidence, "extra")
    return bool(wrong) and all(one.report.extra_bytes >= one.own.nbytes for one in wrong)
