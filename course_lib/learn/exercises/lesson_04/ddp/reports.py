"""04.ddp: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "LOOKED_AT",
    "OTHER_PARAMETERS",
    "AwkwardReport",
    "BytesReport",
    "MemoryReport",
    "OverlapReport",
    "ValuesReport",
]

OTHER_PARAMETERS = "`parameters()` of yours gives others than the module's"
LOOKED_AT = (  # in some cases
    *("names", "begin", "weights", "messages", "others", "views", "stays", "peak", "growth"),
    *("early", "waits", "quiet", "buffers"),
)


def tensors_alike(want: Any, have: Any) -> str:
    """Tensors by name, as near as the narrowest dtype among them allows."""
    if want.keys() != have.keys():
        return f"expected {', '.join(want) or 'none'}, got {', '.join(have) or 'none'}"
    eps = max((torch.finfo(tensor.dtype).eps for tensor in want.values()), default=0.0)
    for name, tensor in want.items():
        if have[name] is None:
            return f"{name!r} has none"
        scale = float(tensor.abs().max()) if tensor.numel() else 0.0
        if found := difference(tensor, have[name], relative=16 * eps, absolute=64 * eps * scale + 1e-15):
            return f"{name!r}: {found}"
    return ""


def _gradients_alike(want: Sequence[Any], have: Sequence[Any]) -> str:
    """Of each step. A parameter that nobody used may have None as well as zeros: it is ``None`` in ``want``."""
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        used = {name: tensor for name, tensor in wanted.items() if tensor is not None}
        unused = {name: came.get(name) for name in wanted.keys() - used.keys()}
        found = tensors_alike(used, {name: one for name, one in came.items() if name not in unused})
        found = found or next(
            (f"{name!r}: nobody used it" for name, one in unused.items() if isinstance(one, Tensor) and one.any()), ""
        )
        if found:
            return f"in step {step}, {found}"
    return ""


def _names(want: Any, have: Any, _: str) -> str:
    if have == [*want, OTHER_PARAMETERS]:
        return OTHER_PARAMETERS
    return f"`state_dict()` of yours is not the module's: {difference(want, have)}"


@dataclass(frozen=True, kw_only=True)
class ValuesReport(RankReport):
    """Step 1: the values."""

    asked_for = "a wrapped model that was trained"
    names: Any = fact(_names)
    begin: Any = fact("once it is wrapped, the model has other weights than rank 0's: {difference}", by=tensors_alike)
    gradients: Any = fact("gradients: {difference}", by=_gradients_alike)
    weights: Any = fact("weights after three steps: {difference}", by=tensors_alike)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    sums_by: str = fact("the values are right, and {got}", right="what it was given")
    own: Any = None  # gradients before they are averaged, of each step; for recognisers
    num_calls: int = 0  # all-reduces in all steps; for recognisers
    operations: tuple[str, ...] = ()  # of all calls in the steps; for recognisers
    call_dtypes: tuple[str, ...] = ()


def _listed(sizes: Sequence[int]) -> str:
    if len(set(sizes)) <= 1:
        return f"{len(sizes)} all-reduce{'s' * (len(sizes) != 1)}" + (f" of {sizes[0]} bytes" if sizes else "")
    return f"{len(sizes)} all-reduces of {', '.join(map(str, sizes))} bytes"


def _messages(want: Any, have: Any, _: str) -> str:
    step = next(at for at, (a, b) in enumerate(zip(want, have, strict=True)) if a != b)
    return f"the values are right. Step {step + 1} is to make {_listed(want[step])}, and made {_listed(have[step])}"


@dataclass(frozen=True, kw_only=True)
class BytesReport(ValuesReport):
    """Step 2: how many all-reduces, of how many bytes."""

    messages: Any = fact(_messages)
    others: Any = fact(
        "the values are right. Beside the all-reduces, the steps made calls that nothing needs: {got}",
    )


def _views(want: Any, have: Any, _: str) -> str:
    step = next(at for at, (a, b) in enumerate(zip(want, have, strict=True)) if a != b)
    return (
        f"values and messages are right. After step {step + 1} the gradients lie in {have[step]} pieces of memory, "
        f"where {want[step]} bucket{' is' if want[step] == 1 else 's are'}: they are no views of the buckets"
    )


@dataclass(frozen=True, kw_only=True)
class MemoryReport(BytesReport):
    """Step 3: what lies in memory beside the model, in sizes of its gradients, and in which pieces."""

    views: Any = fact(_views)
    stays: Any = fact(
        "values and messages are right. After backward {got} times the bytes of the gradients lie beside the model, "
        "and once is enough",
        by=lambda want, have: "" if have <= want else "more",
    )
    peak: Any = fact(
        "values and messages are right. During backward there were {got} times the bytes of the gradients beside the "
        "model. With a bucket more than the gradients it would be 1.1",
        by=lambda want, have: "" if have <= want else "more",
    )
    growth: Any = fact(
        "values and messages are right, and each step leaves more in memory than the one before",
    )


def _early(want: Any, have: Any, _: str) -> str:
    for step, (wanted, came) in enumerate(zip(want, have, strict=True), start=1):
        if len(wanted) != len(came):
            return f"in step {step}, {len(came)} gradients came and {len(wanted)} were expected"
        for number, (due, begun) in enumerate(zip(wanted, came, strict=True), start=1):
            if due != begun:
                return (
                    f"in step {step}, when gradient {number} of {len(wanted)} came, {due} bucket"
                    f"{' was' if due == 1 else 's were'} complete, and {begun} all-reduce"
                    f"{' had' if begun == 1 else 's had'} begun"
                )
    return short(have)


@dataclass(frozen=True, kw_only=True)
class OverlapReport(MemoryReport):
    """Step 4: when each all-reduce began, by the order of calls."""

    early: Any = fact(_early)
    waits: Any = fact("before the last gradient came, backward waited {got} times for an all-reduce")


@dataclass(frozen=True, kw_only=True)
class AwkwardReport(OverlapReport):
    """Step 5: the same of models that are not plain."""

    quiet: Any = fact("inside `no_sync` this rank made {got} calls, and none is needed")
    buffers: Any = fact("a forward pass is to see the buffers of rank 0: {difference}")
    untrained: str = fact("it is neither wrapped nor refused in a sentence: {got}", right="fine")
