"""05.optimizer: how usual wrong answers are told, by the weights that they make and by what they send and keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.optimizer import models
from course_lib.learn.exercises.lesson_05.optimizer.cases import (
    CLOSE,
    DIVIDES,
    GROWTH,
    KINDS,
    LR,
    MOST_PARTS,
    OPERATIONS,
    PARTS,
    SECOND,
    SENT,
    STATES,
    STEPS,
    Trajectory,
    compare,
    num_all,
    start,
    weights_after,
)

Model = Callable[[str, int, int], Trajectory]  # of a case, a rank and a number of ranks

# -- reading what came --------------------------------------------------------------------------------------------


def tried(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, str, int, int]]:
    """Each outcome with weights, with its case, its rank and its world size."""
    for outcome in evidence.outcomes:
        place = re.fullmatch(r"(.*), rank (\d+) of (\d+)", outcome.case)
        if place is not None and isinstance(outcome.got, dict) and weights_after(1) in outcome.got:
            yield outcome, place[1].partition(" and before with ")[0], int(place[2]), int(place[3])


def _weights(report: dict[str, Any]) -> Trajectory:
    return [torch.as_tensor(report[weights_after(step + 1)]) for step in range(STEPS)]


def _are(want: Trajectory, come: Trajectory) -> bool:
    return all(not CLOSE(a, b) for a, b in zip(want, come, strict=True))


def weights_right(evidence: Evidence) -> bool:
    """Whether weights came, the right ones in every case, and something else is wrong."""
    return (
        evidence.error is None
        and bool(evidence.wrong)
        and all(
            isinstance(one.got, dict)
            and weights_after(1) in one.got
            and _are(_weights(one.expected), _weights(one.got))
            for one in evidence.outcomes
        )
    )


def goes_like(model: Model) -> Callable[[Evidence], bool]:
    """Whether the weights are those of this model in every case, and not the right ones."""

    def recognise(evidence: Evidence) -> bool:
        if evidence.error is not None or weights_right(evidence):
            return False
        seen = [case for case in tried(evidence) if case[1] in KINDS]
        return bool(seen) and all(
            _are(model(kind, rank, size), _weights(outcome.got)) for outcome, kind, rank, size in seen
        )

    return recognise


def only_wrong_in(evidence: Evidence, *names: str) -> bool:
    """Whether the weights are right, and nothing is wrong but what these names tell."""
    return weights_right(evidence) and all(
        not compare({n: v for n, v in one.expected.items() if n not in names}, one.got) for one in evidence.wrong
    )


def divides_by_a_constant(evidence: Evidence) -> bool:
    """Whether one divisor explains the weights on every number of ranks."""
    return any(goes_like(partial(models.scaled, by))(evidence) for by in models.BY_A_CONSTANT.values())


def at_another_rate(evidence: Evidence) -> bool:
    """Whether the weights are those of AdamW with one other learning rate."""
    first = next(((outcome, kind, size) for outcome, kind, _, size in tried(evidence)), None)
    if first is None:
        return False
    outcome, kind, size = first
    lr = models.rate_of(_weights(outcome.got)[0], kind, size)
    return lr > 0 and abs(lr / LR - 1) > 1e-3 and goes_like(partial(models.at_rate, lr))(evidence)


# -- parts --------------------------------------------------------------------------------------------------------


def _moved_as(which: Callable[[Tensor, int, int], bool]) -> Callable[[Evidence], bool]:
    """Whether after the first step each number is the right one or the old one, and which of them moved is this."""

    def recognise(evidence: Evidence) -> bool:
        if evidence.error is not None or weights_right(evidence):
            return False
        seen = [case for case in tried(evidence) if case[1] in KINDS and num_all(case[1]) >= case[3]]
        return bool(seen) and all(
            _moved_or_old(outcome) and which(_moved(outcome), rank, size) for outcome, _, rank, size in seen
        )

    return recognise


def _moved(outcome: AnswerOutcome) -> Tensor:
    """Which numbers are right after the first step."""
    want, come = _weights(outcome.expected)[0], _weights(outcome.got)[0]
    return torch.isclose(come, want, rtol=1e-9, atol=1e-11)


def _moved_or_old(outcome: AnswerOutcome) -> bool:
    kind, come = outcome.case.partition(", rank")[0], _weights(outcome.got)[0]
    return come.shape == start(kind).shape and bool((_moved(outcome) | (come == start(kind))).all())


def only_own_part_moves(evidence: Evidence) -> bool:
    """Whether on each rank about 1/n of the numbers moves, and no number on two ranks."""
    on_four = [_moved(o) for o, kind, _, size in tried(evidence) if (kind, size) == (DIVIDES, 4)]
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
    in_order = [(outcome, kind) for outcome, kind, _, _ in tried(evidence)]
    even = all(outcome.right for outcome, kind in in_order if kind == DIVIDES)
    return even and _moved_as(_all_but_the_last)(evidence)


def one_part_in_all_places(evidence: Evidence) -> bool:
    """Whether after the first step all parts hold the right weights of one of them."""
    if evidence.error is not None or weights_right(evidence):
        return False
    seen = [(outcome, size) for outcome, kind, _, size in tried(evidence) if kind == DIVIDES]
    return bool(seen) and all(_is_repeated(*one) for one in seen)


def _is_repeated(outcome: AnswerOutcome, size: int) -> bool:
    come, want = (_weights(report)[0].chunk(size) for report in (outcome.got, outcome.expected))
    return any(_are([part] * size, list(come)) for part in want)


def parts_elsewhere(evidence: Evidence) -> bool:
    """Whether after the first step the parts hold one another's weights, or went by one another's gradients."""
    if evidence.error is not None or weights_right(evidence):
        return False
    seen = [case for case in tried(evidence) if case[1] in KINDS and num_all(case[1]) > case[3]]
    return bool(seen) and all(
        any(not CLOSE(mixed, _weights(outcome.got)[0]) for mixed in models.mixed_up(kind, size))
        for outcome, kind, _, size in seen
    )


# -- errors, bytes and memory -------------------------------------------------------------------------------------


def stops_where_sizes_do_not_divide(evidence: Evidence) -> bool:
    error = evidence.error
    sizes_disagree = error is not None and re.search(r"size|shape|split|divi|length", error.message)
    even = [one for one in evidence.outcomes if one.case.startswith(DIVIDES)]
    return bool(sizes_disagree and even and all(one.right for one in even))


def wants_a_row(evidence: Evidence) -> bool:
    """Whether gloo found that a first dim is not n times that of the part, where sizes divide."""
    error = evidence.error
    said = error is not None and any(words in error.message for words in _SHAPES_OF_GLOO)
    return said and evidence.wrong[0].case.startswith(DIVIDES)


_SHAPES_OF_GLOO = ("outputShape[0] * worldSize == inputShape[0]", "allgather: invalid tensor size")


def _on_four(evidence: Evidence) -> list[dict[str, Any]]:
    return [o.got for o, kind, _, size in tried(evidence) if size == 4 and kind == DIVIDES]


def all_reduces_and_gathers(evidence: Evidence) -> bool:
    """Whether all gradients are all-reduced and all weights gathered: 3/2 of the bytes."""
    sent = [got[SENT] for got in _on_four(evidence)]
    names = {name for got in _on_four(evidence) for name in got[OPERATIONS]}
    return (
        only_wrong_in(evidence, SENT)
        and {"all_reduce", "all_gather"} <= names
        and all(2.1 < times < 2.4 for times in sent)
    )


def gathers_all_gradients(evidence: Evidence) -> bool:
    """Whether each rank sends all of its gradients to every other, or more, and not by sums."""
    sent = [got[SENT] for got in _on_four(evidence)]
    names = {name for got in _on_four(evidence) for name in got[OPERATIONS]}
    return (
        only_wrong_in(evidence, SENT)
        and bool(sent)
        and min(sent) >= 3
        and not {"all_reduce", "reduce", "reduce_scatter"} & names
    )


def keeps_whole_states(evidence: Evidence) -> bool:
    """Whether each rank's optimizer keeps states of all numbers."""
    states = [got[STATES] / num_all(DIVIDES) for got in _on_four(evidence)]
    return weights_right(evidence) and bool(states) and min(states) >= 2


def rank_0_does_it(evidence: Evidence) -> bool:
    """Whether rank 0 alone keeps states, of all numbers, and broadcasts."""
    states = [got[STATES] / num_all(DIVIDES) for got in _on_four(evidence)]
    names = {name for got in _on_four(evidence) for name in got[OPERATIONS]}
    return (
        weights_right(evidence)
        and len(states) == 4
        and states[0] >= 2
        and not any(states[1:])
        and bool({"broadcast", "scatter"} & names)
    )


def keep_unlike(evidence: Evidence) -> bool:
    """Whether some ranks keep too much for one part, and others less than one needs."""
    parts = [got[PARTS] for got in _on_four(evidence)]
    return weights_right(evidence) and bool(parts) and max(parts) > MOST_PARTS and min(parts) < _LEAST_PARTS


_LEAST_PARTS = 1.5  # the two states are 2


def keeps_something_whole(evidence: Evidence) -> bool:
    """Whether the weights are right, and too much is kept, whatever it is."""
    return weights_right(evidence) and any(
        got[PARTS] > outcome.expected[PARTS] for outcome in evidence.wrong for got in [outcome.got]
    )


def wrong_with_a_second(evidence: Evidence) -> bool:
    """Whether one object does all that it should, and two get into each other's way."""
    return only_wrong_in(evidence, SECOND)


def keeps_more_each_step(evidence: Evidence) -> bool:
    """Whether all else is right, and more is kept after each step."""
    grows = [outcome.got[GROWTH] > 0 for outcome in evidence.wrong if isinstance(outcome.got, dict)]
    return only_wrong_in(evidence, GROWTH, PARTS) and bool(grows) and all(grows)
