"""05.fsdp: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.judging.compare import difference, no_more, short
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "A_MODULE",
    "LOOKED_AT",
    "FsdpBytesReport",
    "FsdpMemoryReport",
    "FsdpPrefetchReport",
    "FsdpToolsReport",
    "FsdpValuesReport",
    "losses_alike",
    "state_alike",
]

A_MODULE = "a module"
LOOKED_AT = (  # in some cases
    *("names", "begin", "losses", "weights", "sent", "num_calls", "rest", "between", "fullest", "growth"),
    *("evaluated", "ahead", "ahead_back", "norms", "held"),
)


def state_alike(want: dict[str, Tensor], have: dict[str, Any]) -> str:
    """Tensors by name, as near as the narrowest floating dtype among them allows."""
    if want.keys() != have.keys():
        return f"expected {', '.join(want) or 'none'}, got {', '.join(have) or 'none'}"
    floating = [tensor.dtype for tensor in want.values() if tensor.is_floating_point()]
    eps = max((torch.finfo(dtype).eps for dtype in floating), default=0.0)
    for name, tensor in want.items():
        scale = float(tensor.abs().max()) if tensor.numel() else 0.0
        if found := difference(tensor, have[name], relative=64 * eps, absolute=256 * eps * scale + 1e-15):
            return f"{name!r}: {found}"
    return ""


def _steps_alike(want: Sequence[Any], have: Sequence[Any]) -> str:
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := state_alike(wanted, came):
            return f"after step {step}, {found}"
    return ""


def losses_alike(want: Any, have: Any) -> str:
    """The first difference between the losses of some steps, in float64."""
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := difference(wanted, came, relative=1e-9, absolute=1e-12):
            return f"in step {step}, {found}"
    return ""


def _norms_alike(want: Any, have: Any) -> str:
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        if not isinstance(came, float):
            return f"in step {step} it gave {short(came)}"
        if found := difference(wanted, came, relative=1e-7, absolute=1e-12):
            return f"in step {step}, {found}"
    return ""


@dataclass(frozen=True, kw_only=True)
class FsdpValuesReport(RankReport):
    """Step 1: the values."""

    asked_for = "the facts of a few steps"
    made: str = fact("the constructor is to give a module that has `full_state_dict`; it gave {got}", right=A_MODULE)
    own: Any = fact(
        lambda want, have, _: (
            f"`parameters()` of yours have {have} numbers on this rank, and its part of the model is {want} at most"
        ),
        by=no_more,
    )
    names: Any = fact("`full_state_dict()` has other names than the plain model: {difference}")
    begin: Any = fact(
        "before the first step `full_state_dict()` is not what the model had: {difference}", by=state_alike
    )
    losses: Any = fact("the loss on this rank's rows: {difference}", by=losses_alike)
    weights: Any = fact("{difference}", by=_steps_alike)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    operations: tuple[str, ...] = ()  # of the first step; for recognisers
    call_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FsdpBytesReport(FsdpValuesReport):
    """Step 2: what forward and backward send, in bytes of all weights, and by how many calls."""

    sent: Any = fact(
        lambda want, have, _: (
            f"the values are right. In one step this rank sends {have:.2f} times the bytes of the weights, counted as "
            f"rings send them. Two all-gathers and a reduce-scatter of everything send {want:.2f} at most"
        ),
        by=no_more,
    )
    num_calls: Any = fact(
        "the values and the bytes are right. Forward and backward make {got} calls, where {expected} will do",
        by=no_more,
    )


@dataclass(frozen=True, kw_only=True)
class FsdpMemoryReport(FsdpBytesReport):
    """Step 3: what lies in memory, in sizes of one unit, of which there are ten."""

    rest: Any = fact(
        lambda want, have, _: (
            f"values and bytes are right. Between two steps this rank holds as many numbers as {have:.1f} units have; "
            f"its part of the weights is {want - 0.5:.1f}"
        ),
        by=no_more,
    )
    between: Any = fact(
        lambda want, have, _: (
            f"values and bytes are right. After forward, before backward, this rank holds as many numbers as "
            f"{have:.1f} units have; its part of the weights is {want - 1.5:.1f}"
        ),
        by=no_more,
    )
    fullest: Any = fact(
        lambda want, have, _: (
            f"values and bytes are right. While some layer computed, this rank held as many numbers as {have:.1f} "
            f"units have. Its parts, two whole units and the gradients of one are {want - 2:.1f}"
        ),
        by=no_more,
    )
    evaluated: Any = fact(
        lambda want, have, _: (
            f"values and bytes are right. After a forward pass under `torch.no_grad()` this rank holds as many numbers "
            f"as {have:.1f} units have; its part of the weights is {want - 1.5:.1f}"
        ),
        by=no_more,
    )
    growth: Any = fact("values and bytes are right, and each step leaves more in memory than the one before")


def _ahead(when: str) -> Any:
    def tell(want: Any, have: Any, _: str) -> str:
        number, due, came = next((n, a, b) for n, a, b in _pairs(want, have) if _is_off(a, b))
        place = f"in {when}, when unit {number} of {len(want)} computed"
        if came[0] != due[0]:
            return f"{place}, {came[0]} all-gathers had begun, and {due[0]} were to have begun"
        return f"{place}, somebody had waited for {came[1]} all-gathers, and {due[1]} were needed by then"

    return tell


def _pairs(want: Any, have: Any) -> list[tuple[int, Any, Any]]:
    return [(number, a, b) for number, (a, b) in enumerate(zip(want, have, strict=False), start=1)]


def _is_off(due: Any, came: Any) -> bool:
    return came[0] != due[0] or came[1] > due[1]


def _compare_ahead(want: Any, have: Any) -> str:
    if len(want) != len(have):
        return f"{len(have)} units computed, and {len(want)} were expected"
    return "off" if any(_is_off(a, b) for _, a, b in _pairs(want, have)) else ""


@dataclass(frozen=True, kw_only=True)
class FsdpPrefetchReport(FsdpMemoryReport):
    """Step 4: of each unit, when it computes: how many all-gathers have begun, and how many were waited for."""

    ahead: Any = fact(_ahead("forward"), by=_compare_ahead)
    ahead_back: Any = fact(_ahead("backward"), by=_compare_ahead)


@dataclass(frozen=True, kw_only=True)
class FsdpToolsReport(FsdpPrefetchReport):
    """Steps 5 and 6: the norm that a clip gives, beside weights that follow it."""

    norms: Any = fact("the norm that `clip_grad_norm_` gives: {difference}", by=_norms_alike)
    read: str = fact("`full_state_dict()` between backward and step changed what it was to read: {got}", right=NOTHING)
    given: str = fact("the state that `load_full_state_dict` was given is another after training: {got}", right=NOTHING)
    same: str = fact("after `load_full_state_dict` the objects in `parameters()` are {got}", right=NOTHING)
    held: Any = fact(
        lambda want, have, _: (
            f"the values are right. After `full_state_dict` and `load_full_state_dict` this rank holds {have:.1f} "
            f"times the model's numbers more than before them"
        ),
        by=no_more,
    )
