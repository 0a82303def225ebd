"""07.pipe: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.learn.judging.compare import close_to, difference, short
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "A_PIPELINE",
    "FINE",
    "Gradients",
    "PipeAwkwardReport",
    "PipeMemoryReport",
    "PipeMessagesReport",
    "PipeValuesReport",
    "in_words",
    "row_text",
]

A_PIPELINE, FINE = "an object with `step`", "fine"
_LONG = 24  # actions of a row that are told


def row_text(actions: Sequence[str]) -> str:
    return f"`{' '.join(actions[:_LONG])}{' ...' * (len(actions) > _LONG)}`" if actions else "nothing"


def _losses_alike(want: Any, have: Any) -> str:
    """Of each step and pipeline; None on ranks that do not hold the last stage, which may give anything but a loss."""
    for step, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        if due is None and isinstance(came, float):
            return f"in step {step}, {came:.6g} was returned; the last stage is on another rank, so None is due"
        if due is not None and not isinstance(came, float):
            return f"in step {step}, {came} was returned, and the batch's mean loss is due, a tensor of one number"
        if due is not None and (found := close_to(1e-5, 1e-9)(due, came)):
            return f"in step {step}: {found}"
    return ""


class Gradients(list[Mapping[str, Any]]):
    """Of each step, by name; ``eps``: of the narrowest dtype that anything was computed in."""

    eps = torch.finfo(torch.float64).eps


def _gradients_alike(want: Gradients, have: Sequence[Mapping[str, Any]]) -> str:
    """Of each step, as near as the narrowest dtype allows."""
    eps = want.eps
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        for name, tensor in wanted.items():
            if name not in came:
                return f"in step {step}, `{name}` has none"
            scale = float(tensor.abs().max())
            if found := difference(tensor, came[name], relative=64 * eps, absolute=512 * eps * scale + 1e-15):
                return f"in step {step}, `{name}`: {found}"
        if more := sorted(came.keys() - wanted.keys()):
            return f"in step {step}, `{more[0]}` has one, and it does not learn"
    return ""


def _ran(want: Any, have: Any, _: str) -> str:
    return f"this rank's row is {row_text(want)}, and its stages ran {row_text(have)}"


@dataclass(frozen=True, kw_only=True)
class PipeValuesReport(RankReport):
    """Step 1: the values, and the row."""

    asked_for = "a pipeline that has run its steps"
    made: str = fact("an object with a method `step` is asked for, and it is {got}", right=A_PIPELINE)
    ended: Any = fact(lambda want, have, _: have, by=lambda want, have: "" if have in want else "otherwise")
    losses: Any = fact("the loss: {difference}", by=_losses_alike)
    gradients: Any = fact("gradients: {difference}", by=_gradients_alike)
    ran: Any = fact(_ran)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    own: Any = None  # gradients of the first step, for recognisers
    num_rooms: int = 0  # how many tensors `room` has made in the first step; for recognisers
    num_messages: int = 0  # received in the first step; for recognisers
    events: tuple[tuple[str, int, int], ...] = ()  # of the first step; for recognisers


def _sent(want: Any, have: Any, _: str) -> str:
    told = []
    for messages in (want, have):
        words = [f"{count} of {size} bytes to rank {peer}" for (peer, size), count in sorted(messages.items())]
        told.append(", ".join(words) or "no message")
    return f"the values are right. In a step this rank is to send {told[0]}, and sent {told[1]}"


@dataclass(frozen=True, kw_only=True)
class PipeMessagesReport(PipeValuesReport):
    """Step 2: how many messages, of how many bytes, and when they set out."""

    sent: Any = fact(_sent)  # by (peer, bytes): how many
    others: Any = fact("the values are right, and the steps made calls that nothing needs: {got}")
    held: Any = fact("values and messages are right. But {got}")


def _in_flight(want: Any, have: Any, _: str) -> str:
    at = next(at for at, (due, came) in enumerate(zip(want, have, strict=False)) if came > due)
    return (
        f"values and messages are right. Before forward {at + 1} of this rank {want[at]} micro-batches are in flight "
        f"by the table, and what forwards keep was there of {have[at]}"
    )


def _no_more(want: Sequence[int], have: Sequence[int]) -> str:
    return "more" if any(came > due for due, came in zip(want, have, strict=False)) else ""


@dataclass(frozen=True, kw_only=True)
class PipeMemoryReport(PipeMessagesReport):
    """Steps 3 to 5: what is still there when a forward begins, and after a step."""

    in_flight: Any = fact(_in_flight, by=_no_more)
    stale: Any = fact(
        "values and messages are right. When a forward began, inputs or outputs of {got} micro-batches were still "
        "there whose backward was over",
        by=lambda want, have: "" if have <= want else "more",
    )
    rooms: Any = fact(
        "values and messages are right. When a forward began, {got} tensors of `room` were there, and {expected} do "
        "for what is in flight and on its way",
        by=lambda want, have: "" if have <= want else "more",
    )
    left: Any = fact("values and messages are right. After the step there is still more than nothing: {got}")


@dataclass(frozen=True, kw_only=True)
class PipeAwkwardReport(PipeMemoryReport):
    """Step 6: the same of models that are not plain; ``again``: after a step that failed."""


def in_words(value: Any) -> str:
    """What came in place of a loss, in words."""
    return "None" if value is None else f"{type(value).__name__} {short(value)}"
