"""08.split: what is expected on each rank, as a report of the step's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_08.split.cases import SITUATIONS, SplitSituation, oracle, part_of
from course_lib.learn.exercises.lesson_08.split.reports import AGREE, FINE, OWN, Losses, SplitValuesReport
from course_lib.learn.exercises.lesson_08.split.trial import SEEN
from course_lib.learn.exercises.lesson_08.split.weighing import enough_numbers
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["right"]

_OF_VOCABULARY = ("stem.tokens.weight", "head.w_vocab.weight")
_FEW_BYTES = 512  # of a ring that does not divide evenly, for each call
_LARGE = 5000  # numbers: all logits of most cases, and no other tensor


def right(label: str, report: type[SplitValuesReport]) -> Callable[[int, int], SplitValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    may_be_whole = report is SplitValuesReport
    return lambda rank, world_size: report.of(_facts(label, rank, world_size, may_be_whole))


def _facts(label: str, rank: int, num_ranks: int, may_be_whole: bool) -> dict[str, Any]:
    situation = SITUATIONS[label]
    facts: dict[str, Any] = {"refused": FINE} | dict.fromkeys(SEEN, NOT_DEMANDED)
    if situation.refuses(num_ranks):
        return facts
    ranks = situation.members(rank, num_ranks)
    place, count = ranks.index(rank), len(ranks)
    runs = [oracle(label, number) for number in range(situation.num_models)]

    def ways(name: str, whole: Tensor) -> list[Tensor]:
        own = part_of(name, whole, place, count)
        return [own, whole] if may_be_whole and name in _OF_VOCABULARY else [own]

    def named(of_each: list[dict[str, Tensor]]) -> dict[str, list[Tensor]]:
        texts = [f"{number}." if len(of_each) > 1 else "" for number in range(len(of_each))]
        return {
            text + name: ways(name, one)
            for text, some in zip(texts, of_each, strict=True)
            for name, one in some.items()
        }

    facts["begin"] = named([run.begin for run in runs])
    if situation.looks_at:
        return facts | _of_masks(situation, count)
    steps = range(len(runs[0].losses))
    facts["losses"] = Losses(run.losses[step] for step in steps for run in runs)
    facts["losses"].is_coarse, facts["losses"].num_models = situation.dtype == torch.float32, len(runs)
    facts["later_losses"] = facts["losses"]
    facts["gradients"] = [named([run.gradients[step] for run in runs]) for step in steps]
    if situation.is_counted:
        facts |= _sent(situation, count)
    if situation.is_weighed:
        facts |= enough_numbers(label, place, count)
    return facts


def _of_masks(situation: SplitSituation, count: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"agree": AGREE, "again": OWN, "generators": AGREE}
    if count > 1 and situation.looks_at in ("heads", "places"):
        facts[situation.looks_at] = OWN
    if situation.looks_at == "a step":
        facts["in_a_step"] = NOTHING
    return facts


def _sent(situation: SplitSituation, count: int) -> dict[str, Any]:
    """The largest tensor that may be made, and calls and bytes each way: one gate at each end of a region."""
    config, num_models = situation.config, situation.num_models
    places, item = situation.rows * situation.length, situation.dtype.itemsize
    gates = 2 * config.num_layers + 1  # those of the stem's exit, or of the head's entrance, are one
    around = 2 * (count - 1) / count  # an all-reduce, in sizes of its tensor
    stream, small, num_small = places * config.width * item, 0, 0
    if situation.sequence:  # what all hold and use on positions of their own
        has = 2 if config.bias else 1
        num_small = (2 * config.num_layers + 1) * has + (2 * config.num_layers if config.bias else 0) + 1
        small = (num_small - 1) * config.width * item + config.context_length * config.width * item
    gate_calls = gates * (2 if situation.sequence else 1)
    forward = gate_calls + 3, int(around * (gates * stream + 3 * places * max(item, 4))) + _FEW_BYTES
    backward = gate_calls + num_small, int(around * (gates * stream + small)) + _FEW_BYTES
    if count == 1:
        forward = backward = (gate_calls + num_small + 3, 0)
    facts: dict[str, Any] = {
        "besides": NOTHING,
        "forward": (num_models * forward[0], num_models * forward[1]),
        "backward": (num_models * backward[0], num_models * backward[1]),
    }
    if count > 1 and places * config.vocab_size >= _LARGE:
        facts["widest"] = (places * config.vocab_size, 0)
    return facts
