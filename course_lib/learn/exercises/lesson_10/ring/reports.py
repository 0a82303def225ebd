"""10.ring: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.learn.judging.compare import difference
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "A_RING",
    "Outputs",
    "RingBackwardReport",
    "RingCausalReport",
    "RingHiddenReport",
    "RingMemoryReport",
    "RingMessagesReport",
    "RingValuesReport",
    "near",
]

A_RING = "an object that can be called"


class Outputs(list[Any]):
    """What is expected of each call, and how far a number may be off, relative to the largest of its tensor."""

    within = 1e-10


def near(want: torch.Tensor, have: Any, within: float) -> str:
    """What differs, with differences up to ``within`` of the largest number left out."""
    largest = float(want.double().abs().max()) if want.numel() else 0.0
    return difference(want, have, relative=0.0, absolute=within * largest + 1e-11)


def _outputs(want: Outputs, have: Sequence[Any]) -> str:
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := near(due, came, want.within):
            return f"call {number}: {found}"
    return ""


def _gradients(want: Outputs, have: Sequence[Mapping[str, Any]]) -> str:
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        for name, tensor in due.items():
            if came.get(name) is None:
                return f"after call {number}, `{name}` has none"
            if found := near(tensor, came[name], 2 * want.within):
                return f"after call {number}, that of `{name}`: {found}"
    return ""


@dataclass(frozen=True, kw_only=True)
class RingValuesReport(RankReport):
    """Step 1: the outputs."""

    asked_for = "a ring that was called"
    made: str = fact("an object that can be called is asked for, and it is {got}", right=A_RING)
    outputs: Any = fact("the output, {difference}", by=_outputs)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)


@dataclass(frozen=True, kw_only=True)
class RingBackwardReport(RingValuesReport):
    """Step 2: the gradients of this rank's queries, keys and values."""

    gradients: Any = fact("the outputs are right. Gradients: {difference}", by=_gradients)


def _no_more(want: int, have: int) -> str:
    return "more" if have > want else ""


def _more(what: str) -> Callable[[int, int, str], str]:
    return lambda want, have, _: f"the values are right. {what.format(f'{have:,}')}, and {want:,} are enough"


@dataclass(frozen=True, kw_only=True)
class RingCausalReport(RingBackwardReport):
    """Step 3: how much is computed."""

    work: Any = fact(_more("Forward, this rank made {} multiplications"), by=_no_more)
    work_back: Any = fact(_more("Backward, this rank made {} multiplications"), by=_no_more)


@dataclass(frozen=True, kw_only=True)
class RingMessagesReport(RingCausalReport):
    """Step 4: what is sent."""

    others: Any = fact("the values are right, and there were calls beside messages: {got}")
    sent: Any = fact(_more("Forward, this rank sent {} bytes"), by=_no_more)
    sent_back: Any = fact(_more("Backward, this rank sent {} bytes"), by=_no_more)
    messages: Any = fact(_more("Forward and backward, this rank sent {} messages"), by=_no_more)


@dataclass(frozen=True, kw_only=True)
class RingMemoryReport(RingMessagesReport):
    """Step 5: what is there."""

    largest: Any = fact(_more("The largest tensor that this rank made has {} numbers"), by=_no_more)
    blocks: Any = fact(
        _more("Forward, when this rank computed, {} bytes of what had arrived or was about to were there"),
        by=_no_more,
    )
    blocks_back: Any = fact(
        _more("Backward, when this rank computed, {} bytes of what had arrived or was about to were there"),
        by=_no_more,
    )
    held: Any = fact(_more("Between forward and backward this rank kept {} bytes"), by=_no_more)
    left: Any = fact("the values are right. When all was over, there was still something there: {got}")


@dataclass(frozen=True, kw_only=True)
class RingHiddenReport(RingMemoryReport):
    """Steps 6 and 7: what is in flight while a block is computed."""

    idle: Any = fact("values, messages and memory are right. Forward, {got}")
    idle_back: Any = fact("values, messages and memory are right. Backward, {got}")
