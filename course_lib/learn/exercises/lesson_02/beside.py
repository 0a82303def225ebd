"""Mistakes that 02.ring, 02.tree and 02.shift have in common: what is right, and not always or not for the least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_02.costs import THIRD_CALL, TYPES

__all__ = ["mistakes_beside"]

Answer = Callable[[Any, torch.Tensor], torch.Tensor]


def mistakes_beside(right: Answer, *, in_place: bool, alone: bool = True) -> tuple[Mistake, ...]:
    """``right`` is a right answer, of which the examples are made.

    ``in_place``: it fills the tensor that it is handed. ``alone``: it is tried on one rank too.
    """

    def only_with_others(me: Any, tensor: torch.Tensor) -> torch.Tensor:
        if me.world_size == 1:
            raise RuntimeError("this answer is for several ranks")
        return right(me, tensor)

    def in_float64(me: Any, tensor: torch.Tensor) -> torch.Tensor:
        result = right(me, tensor.double()).to(tensor.dtype)
        return tensor.copy_(result) if in_place else result

    def by_shape(me: Any, tensor: torch.Tensor, kept: dict[Any, torch.Tensor] = {}) -> torch.Tensor:  # noqa: B006
        key = tensor.shape, tensor.dtype
        if key not in kept:
            kept[key] = right(me, tensor)
        return kept[key]

    not_alone = Mistake(
        "not-alone",
        "Right on 2, 3, 4 and 5 ranks, and not on one. A job may well have one rank: it has the result without "
        "anybody's help, so there the same code has nothing to wait for.",
        only_with_others,
        _wrong_alone,
    )
    return (
        *([not_alone] if alone else []),
        Mistake(
            "sends-another-type",
            "Numbers travelled as another type than the tensor's. What that type cannot hold is lost on the way, or "
            "each number takes more bytes than it has. Send the tensor's own numbers, and receive into tensors of its "
            "dtype: `torch.empty_like` makes such a one.",
            in_float64,
            lambda evidence: evidence.error is None and any(map(_sent_another_type, evidence.outcomes)),
            _sent_another_type,
        ),
        Mistake(
            "kept-from-call-to-call",
            "Each case is right by itself, and a third call in one process is not, where all three are given tensors "
            "of one shape. Something of an earlier call is still there, such as a result, a buffer or what the call "
            "was given.",
            by_shape,
            _wrong_in_a_third_call,
        ),
    )


def _is_alone(outcome: AnswerOutcome) -> bool:
    return outcome.case.endswith((" of 1", " on 1 rank"))


def _wrong_alone(evidence: Evidence) -> bool:
    return bool(evidence.wrong) and all(map(_is_alone, evidence.wrong))


def _sent_another_type(outcome: AnswerOutcome) -> bool:
    return isinstance(outcome.got, dict) and bool(outcome.got.get(TYPES))


def _wrong_in_a_third_call(evidence: Evidence) -> bool:
    return bool(evidence.wrong) and all(THIRD_CALL in outcome.case for outcome in evidence.wrong)
