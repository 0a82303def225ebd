"""04.accumulate: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_04.accumulate.trial import (
    AFTER,
    ALIVE,
    CALLED,
    CHANGE,
    EXTRA,
    FLAG_BACKWARD,
    FLAG_FORWARD,
    FORWARDS,
    KINDS,
    LARGEST,
    SENT,
    STEPS,
    TWICE,
    Pieces,
    change_of,
)
from course_lib.learn.exercises.lesson_04.tries import all_got, differing, fact_by_fact, only_wrong_in, same_on_all

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


def _nothing_sent(evidence: Evidence) -> bool:
    sent = all_got(evidence, SENT)
    return evidence.error is None and bool(sent) and max(sent) <= 0.1


def never_averaged(evidence: Evidence) -> bool:
    """Whether nothing was sent, though DDP was called, and the last backward pass ran without synchronisation."""
    quiet = same_on_all(evidence, FLAG_BACKWARD, False) and same_on_all(evidence, CALLED, True)
    return _nothing_sent(evidence) and quiet


def only_the_bare_model(evidence: Evidence) -> bool:
    ran = bool(all_got(evidence, FORWARDS)) and min(all_got(evidence, FORWARDS)) > 0
    return _nothing_sent(evidence) and same_on_all(evidence, CALLED, False) and ran


def was_too_late(evidence: Evidence) -> bool:
    """Whether the flag was down in the last forward pass and up in the backward pass that followed."""
    late = same_on_all(evidence, FLAG_BACKWARD, True) and same_on_all(evidence, FLAG_FORWARD, False)
    return _nothing_sent(evidence) and late


def every_piece_was_averaged(evidence: Evidence) -> bool:
    """Whether the step is right, and as many times the bytes were sent as there are pieces."""
    return only_wrong_in(evidence, SENT) and all(
        abs(o.got[SENT] - o.expected[SENT] * o.expected[FORWARDS]) <= 0.05 * o.expected[FORWARDS] + 0.05
        for o in evidence.outcomes
    )


def steps_for_each_piece(evidence: Evidence) -> bool:
    return evidence.error is None and all(
        isinstance(o.got, dict) and o.got[STEPS] == o.expected[STEPS] * o.expected[FORWARDS] for o in evidence.outcomes
    )


def together(evidence: Evidence) -> bool:
    """Whether the step is right, and all examples went through the model in one pass."""
    return only_wrong_in(evidence, LARGEST, FORWARDS, CHANGE, SENT) and all(
        o.got[LARGEST] == o.expected[LARGEST] * o.expected[FORWARDS] for o in evidence.outcomes
    )


def graphs_of_all(evidence: Evidence) -> bool:
    return only_wrong_in(evidence, ALIVE)


def forwards_again(evidence: Evidence) -> bool:
    return only_wrong_in(evidence, FORWARDS, ALIVE) and all(
        o.got[FORWARDS] > o.expected[FORWARDS] for o in evidence.wrong
    )


def averages_one_piece_twice(evidence: Evidence) -> bool:
    """Whether all is right but what was sent where the list has one piece in two places."""
    return only_wrong_in(evidence, SENT) and all(o.case.startswith(TWICE) for o in evidence.wrong)


def sends_besides(evidence: Evidence) -> bool:
    return only_wrong_in(evidence, EXTRA, SENT) and any(EXTRA in differing(o) for o in evidence.wrong)


def left_the_flag(evidence: Evidence) -> bool:
    return only_wrong_in(evidence, AFTER)


def adds_means(evidence: Evidence) -> bool:
    """Whether each step is too long by the number of pieces."""
    same, too_long = fact_by_fact(), []
    for outcome in evidence.outcomes:
        if outcome.error is not None:
            return False
        kind, _, place = outcome.case.partition(", rank ")
        world_size, count = int(place.rpartition(" ")[2]), KINDS[kind][0]
        want = change_of(kind, world_size, float(count))
        too_long.append(not same({CHANGE: want}, {CHANGE: outcome.got[CHANGE]}))
    return bool(too_long) and all(too_long)
