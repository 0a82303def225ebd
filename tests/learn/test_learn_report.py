"""Reports: fields say how they are compared and how a difference is told, and recognisers name fields."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Raised
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.report import (
    NOT_DEMANDED,
    RankReport,
    always,
    compare,
    differing,
    fact,
    is_not_waited_for,
    only_in,
    only_wrong,
    reports,
)


@dataclass(frozen=True, kw_only=True)
class SumReport(RankReport):
    asked_for = "a tensor"
    total: Any = fact("the sum: {difference}", by=close_to(1e-3))
    sent: Any = fact("the sum is right, and this rank sent {got} instead of {expected}", right="enough")
    shape: Any = fact(lambda want, have, how: f"a shape of {len(have)} axes, where {len(want)} are right", right=(2,))
    calls: int = 0  # no fact


RIGHT = SumReport(total=torch.tensor([1.0, 2.0]))


def evidence_of(*reports_: Any, error: Raised | None = None) -> Evidence:
    outcomes = [
        AnswerOutcome("", RIGHT, got, difference=compare(RIGHT, got), kind="two", rank=rank, num_ranks=len(reports_))
        for rank, got in enumerate(reports_)
    ]
    return Evidence((*outcomes, AnswerOutcome("", None, error=error)) if error else tuple(outcomes))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"total": torch.tensor([1.0, 2.0005])}, ""),
        ({"calls": 7}, ""),
        ({"total": torch.tensor([1.0, 3.0])}, "the sum: at [1]: expected 2.0, got 3.0"),
        ({"sent": "much"}, "the sum is right, and this rank sent much instead of enough"),
        ({"sent": [1, 2]}, "the sum is right, and this rank sent [1, 2] instead of enough"),
        ({"shape": (2, 1)}, "a shape of 2 axes, where 1 are right"),
        ({"unwaited": "began it"}, "this rank began it"),
        ({"sent": "much", "unwaited": "began it"}, "this rank began it"),  # in the order of the fields
        ({"total": None}, "the sum: nothing came back (`None`); a function gives its result with `return`"),
    ],
)
def test_the_first_field_that_differs_is_told(changed, words):
    assert compare(RIGHT, replace(RIGHT, **changed)) == words


def test_what_is_no_report_is_told_by_what_was_asked_for():
    assert compare(RIGHT, [1]) == "expected a tensor, got [1]"
    assert differing(AnswerOutcome("", RIGHT, [1])) == {"everything"}
    assert differing(AnswerOutcome("", RIGHT, error=Raised("ValueError"))) == {"everything"}


def test_a_field_that_is_wrong_alone_is_recognised():
    sends = replace(RIGHT, sent="much")
    assert only_wrong("sent")(evidence_of(RIGHT, sends))
    assert not only_wrong("sent")(evidence_of(sends, replace(sends, total=torch.zeros(2))))
    assert only_wrong("sent", "total")(evidence_of(sends, replace(sends, total=torch.zeros(2))))
    assert not only_wrong("sent")(evidence_of(sends, error=Raised("ValueError")))
    assert not only_wrong("sent")(evidence_of(sends, [1]))
    assert not only_wrong("sent")(evidence_of(RIGHT, RIGHT))  # nothing is wrong


def test_what_is_wrong_in_some_cases_alone_is_recognised():
    sends = replace(RIGHT, sent="much")
    assert only_in("two", "three")(evidence_of(RIGHT, sends))
    assert not only_in("three")(evidence_of(RIGHT, sends))
    assert not only_in("two")(evidence_of(sends, error=Raised("ValueError")))  # which is of another case
    assert not only_in("two")(evidence_of(RIGHT))


def test_what_is_not_demanded_is_compared_with_nothing():
    free = replace(RIGHT, sent=NOT_DEMANDED)
    assert compare(free, replace(RIGHT, sent="much")) == ""
    assert compare(RIGHT, pickle.loads(pickle.dumps(free))) == ""  # a rank did not look
    assert compare(RIGHT, replace(RIGHT, sent="not demanded")) != ""  # an answer cannot say so


def test_a_report_takes_the_facts_that_it_looks_at():
    got = SumReport.of({"total": RIGHT.total, "sent": "much", "views": 3})
    assert (got.total is RIGHT.total, got.sent, got.shape) == (True, "much", (2,))


def test_a_call_that_nobody_waited_for_is_recognised_beside_all_else():
    begun = replace(RIGHT, unwaited="began it", total=torch.zeros(2))
    assert is_not_waited_for(evidence_of(RIGHT, begun))
    assert not is_not_waited_for(evidence_of(RIGHT, replace(RIGHT, sent="much")))


def test_what_holds_of_every_report_is_told_with_its_case_and_rank():
    seen = []
    assert always(SumReport, lambda at, one: not seen.append((at.kind, at.rank, at.num_ranks)))(
        evidence_of(RIGHT, RIGHT)
    )
    assert seen == [("two", 0, 2), ("two", 1, 2)]
    assert not always(SumReport, lambda at, one: True)(evidence_of())  # of none, nothing holds
    assert not always(SumReport, lambda at, one: True)(evidence_of(RIGHT, error=Raised("ValueError")))
    assert [at.rank for at, _ in reports(evidence_of(RIGHT, 3, RIGHT), SumReport)] == [0, 2]
