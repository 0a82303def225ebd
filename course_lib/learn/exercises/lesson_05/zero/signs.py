"""05.zero: how usual wrong answers are told, by the weights that they make and by what they send and keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.zero.cases import SITUATIONS, Steps, gradients, mean, one_process
from course_lib.learn.exercises.lesson_05.zero.reports import ZeroValuesReport, are_alike
from course_lib.learn.judging.report import Recogniser, differing, only_in, only_wrong, reports

__all__ = [
    "PLAIN",
    "afresh",
    "by_defaults_of_the_class",
    "calls",
    "calls_each_parameter",
    "error_in",
    "goes_like",
    "keeps_all_states",
    "of_rank_alone",
    "own_gradients",
    "own_part_alone",
    "own_part_by_own_gradients",
    "piled_up",
    "scaled",
    "sends_too_much",
]

PLAIN = ("AdamW", "AdamW, sizes that do not divide", "SGD with momentum", "a model of one number")
Model = Callable[[str, int, int], Steps]  # of a case, a rank and a number of ranks


def goes_like(model: Model) -> Recogniser:
    """Whether the weights are those of this model in every plain case, and not the right ones."""

    def recognise(evidence: Evidence) -> bool:
        seen = [
            (one, got) for one, got in reports(evidence, ZeroValuesReport) if one.kind in PLAIN and one.num_ranks > 1
        ]
        is_right = all("weights" not in differing(one) for one, _ in seen)
        return bool(seen) and not is_right and all(_are(model(o.kind, o.rank, o.num_ranks), got) for o, got in seen)

    return recognise


def _are(want: Steps, got: ZeroValuesReport) -> bool:
    return len(want) == len(got.weights) and not any(map(are_alike, want, got.weights))


@lru_cache(maxsize=256)
def scaled(by: Callable[[int], float], label: str, world_size: int) -> Steps:
    """Steps on the mean times ``by(world_size)``."""
    factor = by(world_size)
    return one_process(label, lambda step, model: [one * factor for one in mean(label, world_size, step, model)])


def own_gradients(label: str, rank: int, world_size: int) -> Steps:
    return one_process(label, lambda step, model: gradients(label, rank, step, model))


def of_rank_alone(label: str, rank: int, world_size: int) -> Steps:
    """Those of rank 0, on every rank."""
    return own_gradients(label, 0, world_size)


def own_part_by_own_gradients(label: str, rank: int, world_size: int) -> Steps:
    """Each part goes by the gradients of the rank that keeps it."""

    def gradient_of(step: int, model: int) -> list[Tensor]:
        parts = [_cut(gradients(label, other, step, model), world_size)[other] for other in range(world_size)]
        return _uncut(parts, label)

    return one_process(label, gradient_of)


def own_part_alone(label: str, rank: int, world_size: int) -> Steps:
    """Right in this rank's part; all else is as it was."""
    begin = _cut([p.detach() for p in SITUATIONS[label].parameters()], world_size)
    steps = one_process(label, lambda step, model: mean(label, world_size, step, model))
    return [_uncut([*begin[:rank], _cut(step, world_size)[rank], *begin[rank + 1 :]], label) for step in steps]


def afresh(label: str, rank: int, world_size: int) -> Steps:
    return one_process(label, lambda step, model: mean(label, world_size, step, model), afresh=True)


def piled_up(label: str, rank: int, world_size: int) -> Steps:
    return one_process(label, lambda step, model: mean(label, world_size, step, model), piles_up=True)


def by_defaults_of_the_class(*kept: str) -> Model:
    """By the class that was given, without what was given to it but for these."""

    def model(label: str, rank: int, world_size: int) -> Steps:
        situation = SITUATIONS[label]
        options = {name: value for name, value in situation.defaults.items() if name in kept}
        make: Any = situation.optimizer_class
        return one_process(
            label, lambda step, model: mean(label, world_size, step, model), make=lambda p: make(p, **options)
        )

    return model


def _cut(tensors: list[Tensor], world_size: int) -> list[Tensor]:
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    return list(torch.nn.functional.pad(flat, (0, -len(flat) % world_size)).chunk(world_size))


def _uncut(parts: list[Tensor], label: str) -> list[Tensor]:
    shapes = [torch.Size(shape) for shape in SITUATIONS[label].shapes]
    numbers = torch.cat(parts)[: sum(shape.numel() for shape in shapes)]
    pieces = numbers.split([shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


# -- where, and by which facts -------------------------------------------------------------------------------------


def error_in(*labels: str) -> Recogniser:
    """Whether an error came, or nothing came at all, in these cases alone."""
    return lambda e: only_in(*labels)(e) and any(one.error is not None for one in e.wrong)


def calls(holds: Callable[[tuple[str, ...]], bool]) -> Recogniser:
    """Whether sizes and numbers of calls are wrong, weights are right, and the calls of a step are like that."""

    def recognise(evidence: Evidence) -> bool:
        seen = [got.operations for one, got in reports(evidence, ZeroValuesReport) if _is_weighed(one)]
        is_sent = all(differing(one) <= {"sent", "num_calls", "parts", "growth"} for one in evidence.wrong)
        is_wrong = any(differing(one) & {"sent", "num_calls"} for one in evidence.wrong)
        return evidence.error is None and is_wrong and is_sent and bool(seen) and all(map(holds, seen))

    return recognise


def calls_each_parameter(evidence: Evidence) -> bool:
    """Whether a step makes more calls than there are parameters, wherever calls are counted."""
    found = [(one, got) for one, got in reports(evidence, ZeroValuesReport) if _is_weighed(one)]
    is_each = all(len(got.operations) > len(SITUATIONS[one.kind].shapes) for one, got in found)
    return calls(lambda names: len(names) > 2)(evidence) and is_each


def sends_too_much(evidence: Evidence) -> bool:
    return any("sent" in differing(one) for one in evidence.wrong)


def keeps_all_states(evidence: Evidence) -> bool:
    """Whether weights and bytes are right, and states were kept for all numbers."""
    found = [(one, got) for one, got in reports(evidence, ZeroValuesReport) if _is_weighed(one)]
    is_all = all(got.num_states >= 2 * SITUATIONS[one.kind].num_all for one, got in found)
    return only_wrong("parts")(evidence) and bool(found) and is_all


def _is_weighed(outcome: AnswerOutcome) -> bool:
    return SITUATIONS[outcome.kind].is_weighed and outcome.num_ranks > 1
