"""Unsharded parameters for a moment: to look at, to change, and to fill a model that was never whole anywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from course_lib.parallel.sharded.fully_sharded import FullySharded
from course_lib.parallel.sharded.unit import Unit

__all__ = ["fill_from_meta", "unsharded"]


@contextlib.contextmanager
def unsharded(model: FullySharded, *, writable: bool = False) -> Iterator[nn.Module]:
    """The model within, with all its parameters whole. Every rank enters; each holds *all* of the model meanwhile.

    ``with unsharded(model) as plain: print(plain.head.weight.norm())``. With ``writable`` each rank takes its rows of
    what the weights are at the end: do the same on every rank. Without it a changed weight is a ``RuntimeError``.
    """
    copies: dict[Unit, list[Tensor]] = {}
    for unit in model.units:
        unit.check_shards()
        copies[unit] = unit.copies()
        unit.to_unsharded([nn.Parameter(t, requires_grad=t.is_floating_point()) for t in copies[unit]])
    try:
        yield model.module
    except BaseException:
        _to_sharded(model)
        raise
    for unit, tensors in copies.items():
        for parameter, tensor in zip(unit.parameters, tensors, strict=True):
            own = parameter.rows.cut(tensor, model.members.group_rank)
            if writable:
                parameter.shard.data.copy_(own)
            elif not torch.equal(own, parameter.shard.detach()):
                _to_sharded(model)
                raise RuntimeError(
                    f"{parameter.name} was changed while it was whole, and the change would be lost: each rank keeps "
                    "only its rows. To keep the change, use unsharded(model, writable=True), and make the same change "
                    "on every rank."
                )
    _to_sharded(model)


def _to_sharded(model: FullySharded) -> None:
    for unit in model.units:
        unit.to_sharded()


def fill_from_meta(
    model: FullySharded,
    init: Callable[[nn.Module], None],
    *,
    device: torch.device | None = None,
    seed: int = 0,
) -> None:
    """Give real weights to a model that was made under ``torch.device("meta")`` and wrapped: unit by unit.

    Every rank makes one unit's weights whole, calls ``init(module)`` for each module that holds some of them (it
    fills that module's own parameters and buffers, as ``reset_parameters`` does), keeps its rows, and goes on to the
    next unit. So no rank ever holds more than a unit. Chance begins anew with every unit, from ``seed`` and the
    unit's number, the same on all ranks: the weights depend neither on the rank nor on how many there are. Make the
    optimizer afterwards.
    """
    device = model.me.device if device is None else device
    for module in model.module.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = torch.empty_like(buffer, device=device)
    for number, unit in enumerate(model.units):
        _fill_unit(model, unit, init, device, hash((seed, number)))
    holders = {module for unit in model.units for p in unit.parameters for module, _ in p.holders}
    for module in model.module.modules():
        if module not in holders and module._buffers:  # buffers without parameters beside them
            init(module)


def _fill_unit(
    model: FullySharded, unit: Unit, init: Callable[[nn.Module], None], device: torch.device, seed: int
) -> None:
    """One unit: unsharded, filled, sharded. A function of its own: its full weights go before the next unit's come."""
    tensors = [
        nn.Parameter(torch.empty(p.rows.shape, dtype=p.shard.dtype, device=device), requires_grad=p.shard.requires_grad)
        for p in unit.parameters
    ]
    unit.to_unsharded(tensors)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for holder in dict.fromkeys(module for p in unit.parameters for module, _ in p.holders):
            init(holder)
    for parameter, filled in zip(unit.parameters, tensors, strict=True):
        parameter.become(parameter.rows.cut(filled.detach(), model.members.group_rank).clone())
    unit.settle()
