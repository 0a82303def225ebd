"""10.ring: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib.learn.exercises.lesson_10.call_reports import CallReport, gradients_differ, too_many
from course_lib.learn.judging.compare import no_more
from course_lib.learn.judging.report import fact

__all__ = [
    "RingBackwardReport",
    "RingCausalReport",
    "RingHiddenReport",
    "RingMemoryReport",
    "RingMessagesReport",
    "RingValuesReport",
]


@dataclass(frozen=True, kw_only=True)
class RingValuesReport(CallReport):
    """Step 1: the outputs."""

    asked_for = "a ring that was called"


@dataclass(frozen=True, kw_only=True)
class RingBackwardReport(RingValuesReport):
    """Step 2: the gradients of this rank's queries, keys and values."""

    gradients: Any = fact("the outputs are right. Gradients: {difference}", by=gradients_differ("`{}`"))


@dataclass(frozen=True, kw_only=True)
class RingCausalReport(RingBackwardReport):
    """Step 3: how much is computed."""

    work: Any = fact(too_many("Forward, this rank made {} multiplications"), by=no_more)
    work_back: Any = fact(too_many("Backward, this rank made {} multiplications"), by=no_more)


@dataclass(frozen=True, kw_only=True)
class RingMessagesReport(RingCausalReport):
    """Step 4: what is sent."""

    others: Any = fact("the values are right, and there were calls beside messages: {got}")
    sent: Any = fact(too_many("Forward, this rank sent {} bytes"), by=no_more)
    sent_back: Any = fact(too_many("Backward, this rank sent {} bytes"), by=no_more)
    messages: Any = fact(too_many("Forward and backward, this rank sent {} messages"), by=no_more)


@dataclass(frozen=True, kw_only=True)
class RingMemoryReport(RingMessagesReport):
    """Step 5: what is there."""

    largest: Any = fact(too_many("The largest tensor that this rank made has {} numbers"), by=no_more)
    blocks: Any = fact(
        too_many("Forward, when this rank computed, {} bytes of what had arrived or was about to were there"),
        by=no_more,
    )
    blocks_back: Any = fact(
        too_many("Backward, when this rank computed, {} bytes of what had arrived or was about to were there"),
        by=no_more,
    )
    held: Any = fact(too_many("Between forward and backward this rank kept {} bytes"), by=no_more)
    left: Any = fact("the values are right. When all was over, there was still something there: {got}")


@dataclass(frozen=True, kw_only=True)
class RingHiddenReport(RingMemoryReport):
    """Steps 6 and 7: what is in flight while a block is computed."""

    idle: Any = fact("values, messages and memory are right. Forward, {got}")
    idle_back: Any = fact("values, messages and memory are right. Backward, {got}")
