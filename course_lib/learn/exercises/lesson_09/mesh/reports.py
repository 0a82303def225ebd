"""09.mesh: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.learn.judging.compare import difference, no_more
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "A_TRAINER",
    "MeshAwkwardReport",
    "MeshCheckpointReport",
    "MeshMessagesReport",
    "MeshNormReport",
    "MeshShardsReport",
    "MeshStagesReport",
    "MeshValuesReport",
    "numbers_differ",
    "weights_differ",
]

A_TRAINER = "an object with `parts`, `step`, `save` and `load`"
_NEAR = {"relative": 1e-9, "absolute": 1e-10}


def numbers_differ(want: Sequence[float], have: Sequence[Any], what: str = "loss") -> str:
    """The first step whose number differs, in words."""
    for step, (due, came) in enumerate(zip(want, have, strict=False), start=1):
        if not isinstance(came, float):
            return f"in step {step} the {what} is to be a number, and `step` gave {came}"
        if found := difference(due, came, **_NEAR):
            return f"in step {step}: {found}"
    return "" if len(want) == len(have) else f"{len(want)} steps were expected, and {len(have)} came"


def weights_differ(want: Mapping[str, Tensor], have: Mapping[str, Any]) -> str:
    """The first part that is not what this rank is to hold."""
    if missing := [name for name in want if name not in have]:
        return f"`parts` has no {missing[0]!r} on this rank"
    if more := [name for name in have if name not in want]:
        return f"`parts` has {more[0]!r}, which is not of this rank"
    for name, tensor in want.items():
        came = have[name]
        if not isinstance(came, Tensor):
            return f"`parts[{name!r}]` is to be a tensor, and is {came}"
        if came.shape != tensor.shape:
            return f"`parts[{name!r}]` is to have shape {tuple(tensor.shape)}, and has {tuple(came.shape)}"
        if found := difference(tensor, came, **_NEAR):
            return f"`parts[{name!r}]`: {found}"
    return ""


def _norms_differ(want: Sequence[float], have: Sequence[Any]) -> str:
    return numbers_differ(want, have, "norm")


@dataclass(frozen=True, kw_only=True)
class MeshValuesReport(RankReport):
    """Step 1: losses and weights on a mesh of data and slices."""

    asked_for = "the facts of a few steps"
    made: str = fact("{got}", right=A_TRAINER)
    begin: Any = fact("before the first step: {difference}", by=weights_differ)
    losses: Any = fact("the loss: {difference}", by=numbers_differ)
    end: Any = fact("the losses are right. After the last step: {difference}", by=weights_differ)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    gave: tuple[Any, ...] = ()  # norms of the steps, whether they are demanded or not; for recognisers


@dataclass(frozen=True, kw_only=True)
class MeshStagesReport(MeshValuesReport):
    """Step 2: the same with stages."""


def _holds(want: Any, have: Any, _: str) -> str:
    return (
        f"the values are right. After two steps this rank holds {have:,} numbers beside its parts and their gradients; "
        f"{want:,} will do"
    )


@dataclass(frozen=True, kw_only=True)
class MeshShardsReport(MeshStagesReport):
    """Step 3: what lies in memory, in numbers, beside the parts."""

    held: Any = fact(_holds, by=no_more)


def _sends(want: Mapping[str, int], have: Mapping[str, int], _: str) -> str:
    axis = _axis_too_much(want, have)
    where = f"along {axis}" if axis in ("pp", "dp_shard", "tp") else "along no single axis"
    return (
        f"the values are right. In the second step this rank sends {have[axis]:,} bytes {where}, counted as rings send "
        f"them; {want[axis]:,} will do"
    )


def _axis_too_much(want: Mapping[str, int], have: Mapping[str, int]) -> str:
    return next((axis for axis, most in want.items() if have[axis] > most), "")


@dataclass(frozen=True, kw_only=True)
class MeshMessagesReport(MeshShardsReport):
    """Step 4: bytes along each axis, and along none."""

    sent: Any = fact(_sends, by=_axis_too_much)


@dataclass(frozen=True, kw_only=True)
class MeshNormReport(MeshMessagesReport):
    """Step 5: the norm of the whole gradient, and its limit."""

    norms: Any = fact("the losses are right. The norm: {difference}", by=_norms_differ)


def _writes(want: Any, have: Any, _: str) -> str:
    return f"the values are right. The checkpoint has {have:,} bytes, and {want:,} will do"


@dataclass(frozen=True, kw_only=True)
class MeshCheckpointReport(MeshNormReport):
    """Step 6: a checkpoint that another mesh loads."""

    written: Any = fact(_writes, by=no_more)


@dataclass(frozen=True, kw_only=True)
class MeshAwkwardReport(MeshCheckpointReport):
    """Step 7: the same of models, batches and meshes that are not plain."""
