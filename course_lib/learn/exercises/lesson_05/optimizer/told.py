"""05.optimizer: how usual wrong answers are told, by the weights that they make and by what they send and keep."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.optimizer import models
from course_lib.learn.exercises.lesson_05.optimizer.cases import (
    CLOSE,
    DIVIDES,
    LR,
    MOST_PARTS,
    Trajectory,
    num_all,
    start,
)
from course_lib.learn.exercises.lesson_05.optimizer.reports import OptimizerReport
from course_lib.learn.judging.report import NOT_DEMANDED, Recogniser, differing, only_wrong, reports

Model = Callable[[str, int, int], Trajectory]  # of a case, a rank and a number of ranks

# -- reading what came --------------------------------------------------------------------------------------------


def _tried(evidence: Evidence) -> list[tuple[AnswerOutcome, Trajectory]]:
    """Each outcome with weights, and these."""
    found = reports(evidence, OptimizerReport)
    return [(one, list(map(torch.as_tensor, got.weights))) for one, got in found if got.weights is not NOT_DEMANDED]


def _are(want: Trajectory, come: Trajectory) -> bool:
    return all(not CLOSE(a, b) for a, b in zip(want, come, strict=True))


def weights_right(evidence: Evidence) -> bool:
    """Whether weights came, the right ones in every case, and something else is wrong."""
    everywhere = len(_tried(evidence)) == len(evidence.outcomes)
    is_right = all("weights" not in differing(one) for one in evidence.outcomes)
    return evidence.error is None and bool(evidence.wrong) and everywhere and is_right


def _in_wrong_weights(holds: Callable[[AnswerOutcome, Trajectory], bool], *, kind: str = "") -> Recogniser:
    """Whether weights are wrong somewhere, and this holds of all that came: in cases of this kind, or in all.

    A model with fewer numbers than ranks says nothing of parts, and is left out where a kind is not named.
    """

    def recognise(evidence: Evidence) -> bool:
        if evidence.error is not None or weights_right(evidence):
            return False
        seen = [(one, weights) for one, weights in _tried(evidence) if kind in ("", one.kind)]
        return bool(seen) and all(holds(*one) for one in seen)

    return recognise


def goes_like(model: Model) -> Recogniser:
    """Whether the weights are those of this model in every case, and not the right ones."""
    return _in_wrong_weights(lambda one, weights: _are(model(one.kind, one.rank, one.num_ranks), weights))


def divides_by_a_constant(evidence: Evidence) -> bool:
    """Whether one divisor explains the weights on every number of ranks."""
    return any(goes_like(partial(models.scaled, by))(evidence) for by in models.BY_A_CONSTANT.values())


def at_another_rate(evidence: Evidence) -> bool:
    """Whether the weights are those of AdamW with one other learning rate."""
    one, weights = next(iter(_tried(evidence)), (None, []))
    if one is None:
        return False
    lr = models.rate_of(weights[0], one.kind, one.num_ranks)
    return lr > 0 and abs(lr / LR - 1) > 1e-3 and goes_like(partial(models.at_rate, lr))(evidence)


# -- parts --------------------------------------------------------------------------------------------------------


def _moved_as(which: Callable[[Tensor, int, int], bool]) -> Recogniser:
    """Whether after the first step each number is the right one or the old one, and which of them moved is this."""

    def is_moved_so(one: AnswerOutcome, weights: Trajectory) -> bool:
        if num_all(one.kind) < one.num_ranks:
            return True
        moved, begin = _moved(one, weights), start(one.kind)
        is_either = weights[0].shape == begin.shape and bool((moved | (weights[0] == begin)).all())
        return is_either and which(moved, one.rank, one.num_ranks)

    return _in_wrong_weights(is_moved_so)


def _moved(outcome: AnswerOutcome, weights: Trajectory) -> Tensor:
    """Which numbers are right after the first step."""
    return torch.isclose(weights[0], outcome.expected.weights[0], rtol=1e-9, atol=1e-11)


def only_own_part_moves(evidence: Evidence) -> bool:
    """Whether on each rank about 1/n of the numbers moves, and no number on two ranks."""
    on_four = [_moved(*one) for one in _tried(evidence) if (one[0].kind, one[0].num_ranks) == (DIVIDES, 4)]
    return _moved_as(_few)(evidence) and int(torch.stack(on_four).sum(dim=0).max()) == 1


def _few(moved: Tensor, rank: int, size: int) -> bool:
    """About 1/n of them; parts need not be equal."""
    return 0 < int(moved.sum()) < len(moved) * (1 / size + 0.2)


def _all_but_own(moved: Tensor, rank: int, size: int) -> bool:
    owner = torch.arange(size).repeat_interleave(-(-len(moved) // size))[: len(moved)]
    return torch.equal(moved, owner != rank)


def _all_but_the_last(moved: Tensor, rank: int, size: int) -> bool:
    even = len(moved) // size * size
    return bool(moved[:even].all()) and not bool(moved[even:].any())


own_part_stays = _moved_as(_all_but_own)


def last_numbers_stay(evidence: Evidence) -> bool:
    """Whether all is right where sizes divide, and elsewhere the last numbers keep their first values."""
    even = all(one.right for one, _ in _tried(evidence) if one.kind == DIVIDES)
    return even and _moved_as(_all_but_the_last)(evidence)


def _is_repeated(outcome: AnswerOutcome, weights: Trajectory) -> bool:
    come, want = (steps[0].chunk(outcome.num_ranks) for steps in (weights, outcome.expected.weights))
    return any(_are([part] * outcome.num_ranks, list(come)) for part in want)


# All parts hold the right weights of one of them after the first step.
one_part_in_all_places = _in_wrong_weights(_is_repeated, kind=DIVIDES)


def _is_elsewhere(outcome: AnswerOutcome, weights: Trajectory) -> bool:
    mixed = models.mixed_up(outcome.kind, outcome.num_ranks) if num_all(outcome.kind) > outcome.num_ranks else ()
    return not mixed or any(not CLOSE(one, weights[0]) for one in mixed)


parts_elsewhere = _in_wrong_weights(_is_elsewhere)


# -- errors, bytes and memory -------------------------------------------------------------------------------------


def stops_where_sizes_do_not_divide(evidence: Evidence) -> bool:
    error = evidence.error
    sizes_disagree = error is not None and re.search(r"size|shape|split|divi|length", error.message)
    even = [one for one in evidence.outcomes if one.kind == DIVIDES]
    return bool(sizes_disagree and even and all(one.right for one in even))


def wants_a_row(evidence: Evidence) -> bool:
    """Whether gloo found that a first dim is not n times that of the part, where sizes divide."""
    error = evidence.error
    said = error is not None and any(words in error.message for words in _SHAPES_OF_GLOO)
    return said and evidence.wrong[0].kind == DIVIDES


_SHAPES_OF_GLOO = ("outputShape[0] * worldSize == inputShape[0]", "allgather: invalid tensor size")


def _on_four(evidence: Evidence) -> list[OptimizerReport]:
    found = reports(evidence, OptimizerReport)
    return [got for one, got in found if (one.num_ranks, one.kind) == (4, DIVIDES)]


def all_reduces_and_gathers(evidence: Evidence) -> bool:
    """Whether all gradients are all-reduced and all weights gathered: 3/2 of the bytes."""
    return (
        only_wrong("sent")(evidence)
        and {"all_reduce", "all_gather"} <= _operations(evidence)
        and all(2.1 < got.sent < 2.4 for got in _on_four(evidence))
    )


def gathers_all_gradients(evidence: Evidence) -> bool:
    """Whether each rank sends all of its gradients to every other, or more, and not by sums."""
    sent = [got.sent for got in _on_four(evidence)]
    sums = {"all_reduce", "reduce", "reduce_scatter"}
    return only_wrong("sent")(evidence) and bool(sent) and min(sent) >= 3 and not sums & _operations(evidence)


def _operations(evidence: Evidence) -> set[str]:
    return {name for got in _on_four(evidence) for name in got.operations}


def keeps_whole_states(evidence: Evidence) -> bool:
    """Whether each rank's optimizer keeps states of all numbers."""
    states = _states(evidence)
    return weights_right(evidence) and bool(states) and min(states) >= 2


def rank_0_does_it(evidence: Evidence) -> bool:
    """Whether rank 0 alone keeps states, of all numbers, and broadcasts."""
    states = _states(evidence)
    is_alone = len(states) == 4 and states[0] >= 2 and not any(states[1:])
    return weights_right(evidence) and is_alone and bool({"broadcast", "scatter"} & _operations(evidence))


def _states(evidence: Evidence) -> list[float]:
    """On each of four ranks: numbers in states, for each number of the model."""
    return [got.num_states / num_all(DIVIDES) for got in _on_four(evidence)]


def keep_unlike(evidence: Evidence) -> bool:
    """Whether some ranks keep too much for one part, and others less than one needs."""
    parts = [got.parts for got in _on_four(evidence)] if weights_right(evidence) else []
    return bool(parts) and max(parts) > MOST_PARTS and min(parts) < _LEAST_PARTS


_LEAST_PARTS = 1.5  # the two states are 2


def keeps_something_whole(evidence: Evidence) -> bool:
    """Whether the weights are right, and too much is kept, whatever it is."""
    return weights_right(evidence) and any("parts" in differing(one) for one in evidence.wrong)


def keeps_more_each_step(evidence: Evidence) -> bool:
    """Whether all else is right, and more is kept after each step."""
    return only_wrong("growth", "parts")(evidence) and all("growth" in differing(one) for one in evidence.wrong)
