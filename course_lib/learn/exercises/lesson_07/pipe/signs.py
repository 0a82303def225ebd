"""07.pipe: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_07.pipe.cases import SITUATIONS, SPLIT, UncutRun, oracle
from course_lib.learn.exercises.lesson_07.pipe.reports import PipeMessagesReport, PipeValuesReport
from course_lib.learn.judging.report import Recogniser, differing, reports, some_wrong

__all__ = [
    "fewer_rooms_than_messages",
    "gives_another_loss",
    "goes_back_twice",
    "halves_are_whole",
    "keeps",
    "lets_go",
    "messages",
    "nothing_comes_back",
    "other_order",
    "takes_another",
    "times_too_large",
    "wrong_first_in",
]


def wrong_first_in(*kinds: str) -> Recogniser:
    """Whether the first thing that is wrong is in one of these cases."""
    return lambda evidence: bool(evidence.wrong) and evidence.wrong[0].case.startswith(kinds)


_KEPT = ("in_flight", "stale", "rooms", "left")


def keeps(name: str) -> Recogniser:
    """Whether only what is kept is wrong, and of that, in this order of telling, this fact is the first anywhere."""
    before = _KEPT[: _KEPT.index(name)]

    def recognise(evidence: Evidence) -> bool:
        found = [differing(outcome) for outcome in evidence.wrong]
        is_kept = evidence.error is None and bool(found) and all(one <= {*_KEPT} for one in found)
        return is_kept and any(name in one for one in found) and not any(one & {*before} for one in found)

    return recognise


def _seen(evidence: Evidence) -> list[tuple[AnswerOutcome, PipeValuesReport, UncutRun]]:
    """Each report of one pipeline whose gradients or loss are wrong, and what one process has."""
    return [
        (one, got, oracle(one.kind, one.num_ranks))
        for one, got in reports(evidence, PipeValuesReport)
        if SITUATIONS[one.kind].num_pipelines == 1 and differing(one) & {"gradients", "losses"}
    ]


def times_too_large(evidence: Evidence) -> bool:
    """Whether the gradients of the first step are as many times too large as there are micro-batches."""
    found = [
        _alike({name: g * _num_micro_batches(one) for name, g in whole.gradients[0].items()}, got.gradients[0])
        for one, got, whole in _seen(evidence)
        if _num_micro_batches(one) > 1
    ]
    return evidence.error is None and bool(found) and all(found)


def _num_micro_batches(outcome: AnswerOutcome) -> int:
    return SITUATIONS[outcome.kind].schedule(outcome.num_ranks).num_micro_batches


def _alike(want: dict[str, Any], have: Any) -> bool:
    return bool(have) and all(
        name in want and torch.allclose(one.double(), want[name].double(), rtol=1e-4, atol=1e-9)
        for name, one in have.items()
    )


def nothing_comes_back(evidence: Evidence) -> bool:
    """Whether in the first step the ranks before the last have no gradient, or zeros alone."""
    firsts = [
        got.gradients[0]
        for one, got, _ in _seen(evidence)
        if one.rank < one.num_ranks - 1 and isinstance(got.gradients, list)
    ]
    zeros = [all(not bool(g.any()) for g in found.values()) for found in firsts]
    return evidence.error is None and bool(zeros) and all(zeros)


def gives_another_loss(evidence: Evidence) -> bool:
    """Whether only the loss is wrong, and it is that of the last micro-batch, whole or its share."""
    found = []
    for one, got, whole in _seen(evidence):
        shares = (1.0, 1.0 / _num_micro_batches(one))
        came = got.losses[0]
        found.append(
            differing(one) == {"losses"}
            and isinstance(came, float)
            and any(abs(came - share * whole.of_last[0]) <= 1e-6 * abs(came) for share in shares)
        )
    return evidence.error is None and bool(found) and all(found)


def fewer_rooms_than_messages(evidence: Evidence) -> bool:
    """Whether values are wrong, and somewhere fewer tensors of `room` were made than messages came."""
    plain = [got for one, got, _ in _seen(evidence) if not SITUATIONS[one.kind].is_tied]  # ties need messages as well
    return evidence.error is None and any(0 < got.num_rooms < got.num_messages for got in plain)


def lets_go(evidence: Evidence) -> bool:
    """Whether ranks hung over a message whose sender had let go of it."""
    return bool(evidence.stands.let_go)


def takes_another(evidence: Evidence) -> bool:
    """Whether a message was of another size than its receive, or else gradients or losses are wrong."""
    if evidence.error is not None:
        return bool(evidence.stands.too_large)
    return some_wrong("gradients", "losses")(evidence)


def other_order(evidence: Evidence) -> bool:
    """Whether what ran is what the row has, in another order, where it differs."""
    rows = [(one.expected.ran, got.ran) for one, got in reports(evidence, PipeValuesReport) if "ran" in differing(one)]
    return evidence.error is None and bool(rows) and all(sorted(due) == sorted(came) for due, came in rows)


def messages(holds: Callable[[dict[Any, int], dict[Any, int]], bool]) -> Recogniser:
    """Whether values are right, and wherever other messages were sent than are due, (due, sent) are so."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            (one.expected.sent, got.sent)
            for one, got in reports(evidence, PipeMessagesReport)
            if "sent" in differing(one) and isinstance(one.expected.sent, dict)
        ]
        is_sent = evidence.error is None and all("gradients" not in differing(one) for one in evidence.wrong)
        return is_sent and bool(found) and all(holds(*each) for each in found)

    return recognise


def halves_are_whole(evidence: Evidence) -> bool:
    """Whether in tables with halves an I ran as a whole backward."""
    return _halves(evidence, lambda due, came: came.count("I") < due.count("I") and came.count("W") < due.count("W"))


def goes_back_twice(evidence: Evidence) -> bool:
    """Whether in tables with halves the gradient of the inputs is computed again by W."""
    twice = [
        len([event for event in got.events if event[0] == "in"]) > len({e for e in got.events if e[0] == "in"})
        for one, got in reports(evidence, PipeValuesReport)
        if one.kind in SPLIT and "ran" in differing(one)
    ]
    return evidence.error is None and bool(twice) and all(twice)


def _halves(evidence: Evidence, holds: Callable[[str, str], bool]) -> bool:
    letters = [
        ("".join(a[0] for a in one.expected.ran), "".join(a[0] for a in got.ran))
        for one, got in reports(evidence, PipeValuesReport)
        if one.kind in SPLIT and "ran" in differing(one)
    ]
    return evidence.error is None and bool(letters) and all(holds(*each) for each in letters)
