"""10.ring: how wrong gradients are told by what they are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_10.call_reports import near
from course_lib.learn.exercises.lesson_10.ring.cases import SITUATIONS, own_part, whole_of
from course_lib.learn.exercises.lesson_10.ring.reports import RingBackwardReport
from course_lib.learn.exercises.lesson_10.ring.signs import plain_reports
from course_lib.learn.judging.report import Recogniser, differing

__all__ = ["keys_have", "no_gradient_at_all", "only_scores", "scaled_once"]


def _with_gradients(evidence: Evidence) -> list[tuple[AnswerOutcome, dict[str, Any]]]:
    """Where gradients are wrong and nothing else is, here or elsewhere."""
    if any("outputs" in differing(one) for one in evidence.wrong):
        return []
    return [
        (one, got.gradients[0])
        for one, got in plain_reports(evidence)
        if isinstance(got, RingBackwardReport) and differing(one) == {"gradients"} and got.gradients
    ]


def no_gradient_at_all(evidence: Evidence) -> bool:
    """Whether the outputs are right, and q, k and v have no gradient anywhere."""
    found = [all(grad is None for grad in grads.values()) for _, grads in _with_gradients(evidence)]
    return evidence.error is None and bool(found) and all(found)


def keys_have(what: str) -> Recogniser:
    """Whether the gradient of q is right, and that of v is "own": the part of this rank's own queries alone, or
    "another's": that of another rank's values, with or without the part of their owner.
    """

    def recognise(evidence: Evidence) -> bool:
        found = []
        for one, grads in _with_gradients(evidence):
            parts = _parts_of_values(one.kind, one.num_ranks)
            place, many = SITUATIONS[one.kind].members(one.num_ranks).index(one.rank), len(parts)
            if what == "own":
                wanted = [parts[place][place]]
            else:
                wholes = [
                    (other, torch.stack([parts[i][other] for i in range(many)]).sum(0))
                    for other in range(many)
                    if other != place
                ]
                wanted = [each for other, whole in wholes for each in (whole, whole - parts[other][other])]
            came, within = grads.get("v"), max(1e-7, 4 * SITUATIONS[one.kind].within)
            found.append(isinstance(came, Tensor) and any(not near(each, came.double(), within) for each in wanted))
        return evidence.error is None and bool(found) and all(found)

    return recognise


@lru_cache(maxsize=64)
def _parts_of_values(label: str, world_size: int) -> list[list[Tensor]]:
    """``[i][j]``: what the queries of place i add to the gradient of the values of place j, in the first call."""
    one = SITUATIONS[label]
    positions = one.positions(len(one.members(world_size)))
    q, k, _, grad = (x.double() for x in whole_of(label, len(positions), 0, 0))
    sharing = one.heads[0] // one.heads[1]
    scores = q @ k.repeat_interleave(sharing, 1).mT * one.head_dim**-0.5
    if one.is_causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
    weights = scores.softmax(-1)
    found = []
    for own in positions:
        part = (own_part(weights, own).mT @ own_part(grad, own)).unflatten(1, (one.heads[1], sharing)).sum(2)
        found.append([own_part(part, theirs) for theirs in positions])
    return found


def _is(one: AnswerOutcome, grads: dict[str, Any], name: str, times: float = 1.0) -> bool:
    """Whether this gradient, after the first call, is ``times`` what is due."""
    due, came, within = one.expected.gradients[0].get(name), grads.get(name), max(1e-7, 4 * SITUATIONS[one.kind].within)
    are_there = isinstance(due, Tensor) and isinstance(came, Tensor)
    return are_there and not near(times * due.double(), came.double(), within)


def only_scores(evidence: Evidence) -> bool:
    """Whether wherever gradients are wrong that of v is right, and that of q is not."""
    found = [_is(one, grads, "v") and not _is(one, grads, "q") for one, grads in _with_gradients(evidence)]
    return evidence.error is None and bool(found) and all(found)


def scaled_once(evidence: Evidence) -> bool:
    """Whether wherever gradients are wrong that of q is larger by the root of the numbers of a head."""
    found = [_is(one, grads, "q", SITUATIONS[one.kind].head_dim ** 0.5) for one, grads in _with_gradients(evidence)]
    return evidence.error is None and bool(found) and all(found)
