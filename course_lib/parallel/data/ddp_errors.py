"""What goes wrong with a wrapper of data parallelism, and the sentence for each.

A rank that raises alone leaves the others waiting for its messages. So what can be known when a model is wrapped is
asked of all ranks first, and then all of them say it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.nn.parameter import is_lazy

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import HeldPart, part_of

__all__ = [
    "NESTED",
    "REPLACED",
    "UNEXPECTED",
    "UNUSED",
    "WRAPPERS",
    "AveragesGradients",
    "check_gradient",
    "check_model",
    "described",
    "is_within_backward",
    "refuse_changed",
    "refuse_other_models",
    "refuse_parts",
]

UNEXPECTED = (
    "a gradient of {names} came without a forward of this wrapper before it, so no other rank would average it. Call "
    "the wrapper, not its .module, and then backward once. Add up the losses of several forwards, and wrap a model "
    "once. To keep gradients on this rank, compute them within no_sync()."
)
UNUSED = (
    "on rank {rank} this backward gave no gradient to {names}; the mean counts it as zero. If the loss need not "
    "depend on every parameter in every step, wrap the model with find_unused_parameters=True. Freeze parameters that "
    "you never train by requires_grad_(False) before wrapping."
)

NESTED = (
    "a gradient of {names} came from a backward within a backward, as checkpointing with use_reentrant=True runs it. "
    "When the inner one ends, the wrapper cannot know whether the outer one goes on. Use "
    "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)."
)
REPLACED = (
    "on rank {rank} {names} was replaced after the model was wrapped; no other rank averages the new parameter. "
    "Change values in place, as load_state_dict does, or wrap the model again after the change."
)
ADDED = (
    "on rank {rank} {names} requires a gradient, and was missing or frozen when the model was wrapped. No other rank "
    "would average it. Wrap the model again after the change."
)


class AveragesGradients:
    """A replica's wrapper, which averages gradients itself: what one holds may not be wrapped by another."""


WRAPPERS = (AveragesGradients, nn.parallel.DistributedDataParallel)


def check_model(
    me: Rank,
    module: nn.Module,
    wrappers: tuple[type, ...],
    groups: Sequence[dist.ProcessGroup | None] = (None,),
) -> None:
    """Raise ``ValueError`` on every rank where one of them has a model that cannot be wrapped, or another model.

    A module of which ranks hold *parts* says so by an attribute ``parts_among``, the ``Members`` that share it
    (``refuse_parts``).

    ``wrappers`` are the classes that average gradients themselves. ``groups`` are those in which this rank averages;
    with several, rows and columns of a grid say, each rank hears of the whole grid: what it has heard in one group it
    tells in the next.
    """
    complaint = _complaint(module, wrappers)
    for group in groups:
        complaint = complaint or _parts_complaint(module, Members.of(me, group))
    known: dict[int, tuple[str, list[str]]] = {me.rank: (complaint, _description(module))}
    for group in groups:
        reports: list[Any] = [None] * Members.of(me, group).count
        dist.all_gather_object(reports, known, group=group)
        known = {rank: one for each in reports for rank, one in each.items()}
    for rank, (complaint, _) in sorted(known.items()):
        if complaint:
            raise ValueError(f"rank {rank}: {complaint}")
    refuse_other_models({rank: model for rank, (_, model) in known.items()}, "wrap the same model on all ranks")


def refuse_other_models(of_ranks: Mapping[int, Sequence[str]], cure: str) -> None:
    """Raise ``ValueError`` at the first tensor in which a rank's model, each tensor ``described``, is another one."""
    first = min(of_ranks)
    for rank, model in sorted(of_ranks.items()):
        for one, other in zip_longest(of_ranks[first], model, fillvalue="nothing"):
            if one != other:
                raise ValueError(f"rank {first} has {one} where rank {rank} has {other}; {cure}")


def described(name: str, tensor: Tensor, layout: str = "") -> str:
    """What must be the same on all ranks, in words."""
    if is_lazy(tensor):
        return f"{name} without a shape"
    return f"{name} {tuple(tensor.shape)} {tensor.dtype}, {layout}{'trained' if tensor.requires_grad else 'fixed'}"


def refuse_parts(module: nn.Module, members: Members) -> None:
    """Raise ``ValueError`` where ranks among ``members`` hold different parts of a module: whoever takes them for
    copies gives all ranks the part of the first, or averages what does not belong together.

    Such a module has an attribute ``parts_among``, the ``Members`` that share it. One whose gradients need another
    average than the mean over the ranks with the same part says by ``averaged_by`` what gives it.
    """
    if complaint := _parts_complaint(module, members):
        raise ValueError(complaint)


def refuse_changed(me: Rank, module: nn.Module, name_of: Mapping[nn.Parameter, str]) -> None:
    """Raise ``RuntimeError`` where the trained parameters are not those of ``name_of``, whose gradients are averaged.

    Their hooks would not be called, or nobody has given them any, and gradients would stay on this rank in silence.
    """
    now = dict(module.named_parameters())
    if gone := [name_of[parameter] for parameter in name_of.keys() - set(now.values())]:
        raise RuntimeError(REPLACED.format(names=", ".join(sorted(gone)), rank=me.rank))
    if added := [name for name, parameter in now.items() if parameter.requires_grad and parameter not in name_of]:
        raise RuntimeError(ADDED.format(names=", ".join(added), rank=me.rank))


def check_gradient(name: str, parameter: nn.Parameter) -> None:
    """Raise ``RuntimeError`` for a gradient that has no place in a flat buffer."""
    if parameter.grad is None:
        return
    if parameter.grad.requires_grad:
        raise RuntimeError("backward(create_graph=True) does not work: a mean over ranks has no graph")
    if parameter.grad.layout != torch.strided:
        raise RuntimeError(
            f"the gradient of {name} is sparse, and buckets are dense: ask for a dense one (sparse=False)"
        )


def is_within_backward() -> bool:
    """Asked in a hook of autograd: whether the backward that calls it was itself called by one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not BackwardCFunction.apply.__code__:
        frame = frame.f_back
    return frame is not None


def _complaint(module: nn.Module, wrappers: tuple[type, ...]) -> str:
    """Why this rank's model cannot be wrapped; "" if it can."""
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            return f"{name} has no shape yet: call the model once, on a batch like the later ones, before you wrap it"
        if 0 in [stride for size, stride in zip(parameter.shape, parameter.stride(), strict=True) if size > 1]:
            return (
                f"{name} is expanded, {tuple(parameter.shape)} with strides {parameter.stride()}: several of its "
                "numbers share one place in memory, so no optimizer can change them apart. Make it "
                "nn.Parameter(tensor.clone())"
            )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return "no parameter of this model requires a gradient, so there is nothing to average"
    for name, part in module.named_modules():
        which = f"{name!r} of this model" if name else "this model"
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse and part.weight.requires_grad:
            return f"{which} gives sparse gradients, and buckets are dense: make it with sparse=False"
        if isinstance(part, wrappers):
            return (
                f"{which} is a {type(part).__name__} already. Two wrappers would average the same gradients, each "
                "while the other fills them. Wrap the outer model alone"
            )
    return ""


def _parts_complaint(module: nn.Module, members: Members) -> str:
    """Why ``members`` must not take their parameters for copies; "" if they may."""
    for name, holder in module.named_modules():
        if among := getattr(holder, "parts_among", None):
            part = HeldPart(type(holder).__name__, among, getattr(holder, "averaged_by", ""))
            which = f"{name!r} of this model" if name else "this model"
            if part.is_sharded_among(members):
                return _parts_message(f"{which} is a {part.kind}", part, members)
    for (
        name,
        parameter,
    ) in module.named_parameters():  # also where their module is not known, as in an optimizer
        found = part_of(parameter)
        if found is not None and found.is_sharded_among(members):
            which = f"{name}, of shape {tuple(parameter.shape)}, belongs to a {found.kind}"
            return _parts_message(which, found, members)
    return ""


def _parts_message(which: str, part: HeldPart, members: Members) -> str:
    shared, ours = (", ".join(map(str, each.ranks)) for each in (part.among, members))
    return (
        f"{which}: ranks {shared} hold different parts of it, and data parallelism over ranks {ours} averages copies. "
        f"Use {part.averaged_by or 'a group of ranks that hold the same part, as along the data axis of a mesh'}"
    )


def _description(module: nn.Module) -> list[str]:
    """What must be the same on all ranks: all-reduces of different sizes hang, other strides mix up values."""
    found = []
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        is_plain = is_lazy(tensor) or tensor.is_contiguous()
        found.append(described(name, tensor, "" if is_plain else f"strides {tensor.stride()}, "))
    return found
