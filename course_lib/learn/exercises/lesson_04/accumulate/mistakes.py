"""04.accumulate: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_04.accumulate.trial import KINDS, TWICE, AccumulateReport, Pieces, change_of
from course_lib.learn.exercises.lesson_04.tries import EXACT
from course_lib.learn.judging.report import always, both, only_wrong, reports, some_wrong

# -- wrong answers ----------------------------------------------------------------------------------------------


def step(
    *,
    syncs: Callable[[int, int], bool] = lambda index, count: index == count - 1,
    divide: bool = True,
    steps_inside: bool = False,
    clears: bool = True,
    clears_inside: bool = False,
    clears_after: bool = False,
    restores: bool = True,
    times: int = 1,
) -> Callable[..., None]:
    """The step, right but for what the arguments change. ``syncs(index, count)``: whether a piece is averaged."""

    def take(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
        if clears:
            optimizer.zero_grad()
        for index, (x, y) in enumerate(pieces):
            if clears_inside:
                optimizer.zero_grad()
            ddp.require_backward_grad_sync = syncs(index, len(pieces))
            for _ in range(times):
                loss = F.cross_entropy(ddp(x), y) / (len(pieces) if divide else 1)
            loss.backward()
            if steps_inside:
                optimizer.step()
        if not steps_inside:
            optimizer.step()
        if clears_after:
            optimizer.zero_grad()
        ddp.require_backward_grad_sync = restores

    return take


# -- what they leave behind -------------------------------------------------------------------------------------


_nothing_sent = always(AccumulateReport, lambda outcome, report: report.sent <= 0.1)
never_averaged = both(
    _nothing_sent, always(AccumulateReport, lambda outcome, report: report.is_called and not report.flag_backward)
)
only_the_bare_model = both(
    _nothing_sent, always(AccumulateReport, lambda outcome, report: not report.is_called and report.forwards > 0)
)
was_too_late = both(
    _nothing_sent, always(AccumulateReport, lambda outcome, report: report.flag_backward and not report.flag_forward)
)


def every_piece_was_averaged(evidence: Evidence) -> bool:
    """Whether the step is right, and as many times the bytes were sent as there are pieces."""
    return only_wrong("sent")(evidence) and all(
        abs(o.got.sent - o.expected.sent * o.expected.forwards) <= 0.05 * o.expected.forwards + 0.05
        for o in evidence.outcomes
    )


steps_for_each_piece = always(
    AccumulateReport,
    lambda outcome, report: report.num_steps == outcome.expected.num_steps * outcome.expected.forwards,
)


def together(evidence: Evidence) -> bool:
    """Whether the step is right, and all examples went through the model in one pass."""
    return only_wrong("largest", "forwards", "change", "sent")(evidence) and all(
        o.got.largest == o.expected.largest * o.expected.forwards for o in evidence.outcomes
    )


graphs_of_all = only_wrong("alive")


def forwards_again(evidence: Evidence) -> bool:
    return only_wrong("forwards", "alive")(evidence) and all(
        o.got.forwards > o.expected.forwards for o in evidence.wrong
    )


def averages_one_piece_twice(evidence: Evidence) -> bool:
    """Whether all is right but what was sent where the list has one piece in two places."""
    return only_wrong("sent")(evidence) and all(o.case.startswith(TWICE) for o in evidence.wrong)


sends_besides = both(only_wrong("extra", "sent"), some_wrong("extra"))
left_the_flag = only_wrong("after")


def adds_means(evidence: Evidence) -> bool:
    """Whether each step is too long by the number of pieces."""
    too_long = [
        not EXACT(change_of(outcome.kind, outcome.num_ranks, float(KINDS[outcome.kind][0])), report.change)
        for outcome, report in reports(evidence, AccumulateReport)
    ]
    return evidence.error is None and bool(too_long) and all(too_long)
