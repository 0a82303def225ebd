"""10.ring: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_10.call_reports import first_wrong_in, near, repeats_the_first
from course_lib.learn.exercises.lesson_10.ring.cases import (
    SITUATIONS,
    RingSituation,
    own_part,
    whole_of,
)
from course_lib.learn.exercises.lesson_10.ring.reports import (
    RingMessagesReport,
    RingValuesReport,
)
from course_lib.learn.judging.report import Recogniser, differing, reports

__all__ = [
    "costs",
    "first_wrong_in",
    "gave",
    "has_nan",
    "keeps_an_earlier_one",
    "lets_go",
    "loses_the_dtype",
    "only_overflows",
    "only_where",
    "plain_reports",
    "sends",
]


def only_where(holds: Callable[[RingSituation], bool]) -> Recogniser:
    """Whether outputs or gradients are wrong, and in such situations alone."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            holds(SITUATIONS[one.kind]) and bool(differing(one) & {"outputs", "gradients"}) for one in evidence.wrong
        ]
        return evidence.error is None and bool(found) and all(found)

    return recognise


# -- outputs ----------------------------------------------------------------------------------------------------------


def plain_reports(evidence: Evidence) -> list[tuple[AnswerOutcome, Any]]:
    """Each report of a rank that took part, where one object was called once a turn."""
    return [
        (one, got)
        for one, got in reports(evidence, RingValuesReport)
        if isinstance(got.outputs, list)
        and not SITUATIONS[one.kind].is_stacked
        and SITUATIONS[one.kind].num_objects == 1
    ]


_LOOKED_FOR: dict[str, Callable[[RingSituation], bool]] = {
    "averages": lambda one: one.order == "contiguous",
    "unrescaled": lambda one: one.order == "contiguous",
    "unscaled": lambda one: one.scale == 1,
}


def gave(kind: str) -> Recogniser:
    """Whether an output is wrong, and a wrong one is what this slip makes.

    A slip at the seam of two blocks is looked for where each rank has one stretch: others join stretches, too. One in
    the size of scores is looked for where they are small: large ones leave one key, whatever they are divided by.
    """

    def recognise(evidence: Evidence) -> bool:
        found = [
            _is_slip(one, got.outputs[0], kind)
            for one, got in plain_reports(evidence)
            if "outputs" in differing(one) and _LOOKED_FOR.get(kind, bool)(SITUATIONS[one.kind])
        ]
        return bool(found) and all(found)

    return recognise


def _is_slip(outcome: AnswerOutcome, out: Any, kind: str) -> bool:
    if not isinstance(out, Tensor):
        return False
    slip = _slip(outcome.kind, outcome.num_ranks, outcome.rank, kind)
    within = max(1e-7, 2 * SITUATIONS[outcome.kind].within)
    is_right = not near(slip, outcome.expected.outputs[0].double(), within)
    return not is_right and not near(slip, out.double(), within)


@lru_cache(maxsize=256)
def _slip(label: str, world_size: int, rank: int, kind: str) -> Tensor:
    """What a rank gives in the first call by one of the usual slips."""
    one, members = SITUATIONS[label], SITUATIONS[label].members(world_size)
    place, positions = members.index(rank), one.positions(len(members))
    q, k, v, _ = (x.double() for x in whole_of(label, len(members), 0, 0))
    sharing = one.heads[0] // one.heads[1]
    k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
    q = own_part(q, positions[place])
    blocks = []
    for owner, own in enumerate(positions):
        scores = q @ own_part(k, own).mT * (1.0 if kind == "unscaled" else one.head_dim**-0.5)
        if one.is_causal:
            sees = _sees(kind, positions, place, owner)
            scores = scores.masked_fill(~sees, float("-inf"))
        blocks.append((scores, own_part(v, own)))
    if kind == "own":
        blocks = [blocks[place]]
    return _joined(blocks, kind)


def _sees(kind: str, positions: list[list[int]], place: int, owner: int) -> Tensor:
    """(Q, S): which keys of the owner each query of ``place`` looks at."""
    mine, theirs = torch.tensor(positions[place]), torch.tensor(positions[owner])
    if kind == "local":
        mine, theirs = torch.arange(len(mine)), torch.arange(len(theirs))
    if kind == "others" and owner != place:
        return torch.ones(len(mine), len(theirs), dtype=torch.bool)
    return mine.unsqueeze(1) >= theirs


def _joined(blocks: list[tuple[Tensor, Tensor]], kind: str) -> Tensor:
    scores, values = torch.cat([scores for scores, _ in blocks], -1), torch.cat([v for _, v in blocks], -2)
    if kind == "averages":
        weights = torch.cat([each.softmax(-1).nan_to_num() / len(blocks) for each, _ in blocks], -1)
    elif kind == "unrescaled":
        weights = torch.cat([(each - each.amax(-1, keepdim=True)).exp().nan_to_num() for each, _ in blocks], -1)
        weights = weights / weights.sum(-1, keepdim=True)
    else:
        weights = scores.softmax(-1)
    return weights @ values


def only_overflows(evidence: Evidence) -> bool:
    """Whether values are wrong with large scores alone, where they are no numbers."""
    found = [got for one, got in plain_reports(evidence) if "outputs" in differing(one)]
    is_large = only_where(lambda one: one.scale > 1)(evidence)
    return is_large and bool(found) and all(_has_no_number(got.outputs) for got in found)


def _has_no_number(outputs: list[Any]) -> bool:
    return any(isinstance(out, Tensor) and not bool(out.isfinite().all()) for out in outputs)


def has_nan(evidence: Evidence) -> bool:
    """Whether all is right without a causal mask, and with one an output is no number."""
    found = [got for one, got in plain_reports(evidence) if "outputs" in differing(one)]
    is_causal = only_where(lambda one: one.is_causal)(evidence)
    return is_causal and bool(found) and any(_has_no_number(got.outputs) for got in found)


keeps_an_earlier_one = repeats_the_first(plain_reports)


def lets_go(evidence: Evidence) -> bool:
    """Whether ranks hung over a message whose sender had let go of it."""
    return bool(evidence.stands.let_go)


def loses_the_dtype(evidence: Evidence) -> bool:
    """Whether something is wrong in narrow numbers alone, and it is the dtype."""
    coarse = only_where(lambda one: one.dtype is torch.bfloat16)(evidence)
    return coarse and all("expected the type" in one.difference for one in evidence.wrong)


# -- costs ------------------------------------------------------------------------------------------------------------


def costs(*names: str, but: tuple[str, ...] = ()) -> Recogniser:
    """Whether all values are right, one of these costs is too high somewhere, and none of ``but``."""

    def recognise(evidence: Evidence) -> bool:
        found = [differing(one) for one in evidence.wrong]
        is_right = evidence.error is None and not any(one & {"outputs", "gradients", "kept"} for one in found)
        return is_right and any(one & {*names} for one in found) and not any(one & {*but} for one in found)

    return recognise


def sends(holds: Callable[[RingSituation, int, int, int], bool]) -> Recogniser:
    """Whether wherever too many bytes are sent forward, (situation, ranks, due bytes, sent bytes) are so."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            holds(SITUATIONS[one.kind], one.num_ranks, one.expected.sent, got.sent)
            for one, got in reports(evidence, RingMessagesReport)
            if "sent" in differing(one)
        ]
        return costs("sent")(evidence) and bool(found) and all(found)

    return recognise
