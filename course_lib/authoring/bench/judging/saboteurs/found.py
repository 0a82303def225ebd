"""Tensors, modules and numbers among what an answer is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["changed", "floats_in", "is_rank", "modules_in", "parameters_in", "shape_of", "tensors_in", "values_of"]


def is_rank(thing: Any) -> bool:
    """Whether it is the ``me`` that a function on a rank is given."""
    return hasattr(thing, "rank") and hasattr(thing, "world_size")


def tensors_in(*things: Any) -> Iterator[Tensor]:
    """The tensors among these, within lists, tuples and dictionaries too; not the parameters of modules."""
    for thing in things:
        if isinstance(thing, Tensor):
            yield thing
        elif isinstance(thing, dict):
            yield from tensors_in(*thing.values())
        elif isinstance(thing, list | tuple):
            yield from tensors_in(*thing)


def floats_in(*things: Any) -> list[Tensor]:
    """The tensors with floating-point numbers, those of modules too."""
    found = [*tensors_in(*things), *(p for module in modules_in(*things) for p in module.parameters())]
    return [tensor for tensor in found if tensor.is_floating_point()]


def modules_in(*things: Any) -> Iterator[nn.Module]:
    """The modules among these, within lists, tuples and dictionaries too, and what wraps one as ``.module``."""
    for thing in things:
        if isinstance(thing, nn.Module):
            yield thing
        elif isinstance(thing, dict):
            yield from modules_in(*thing.values())
        elif isinstance(thing, list | tuple):
            yield from modules_in(*thing)
        elif isinstance(getattr(thing, "module", None), nn.Module):
            yield thing.module


def parameters_in(*things: Any) -> list[Tensor]:
    """The parameters of the modules, and the leaves that ask for gradients."""
    of_modules = [p for module in modules_in(*things) for p in module.parameters()]
    return of_modules + [t for t in tensors_in(*things) if t.is_leaf and t.requires_grad]


def changed(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same thing with each tensor in it changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, dict):
        return type(thing)((key, changed(value, change)) for key, value in thing.items())
    if type(thing) in (list, tuple):
        return type(thing)(changed(value, change) for value in thing)
    return thing


def shape_of(thing: Any) -> Any:
    """What two things of one shape have in common: shapes and dtypes of tensors, numbers and texts as they are."""
    if isinstance(thing, Tensor):
        return tuple(thing.shape), thing.dtype
    if isinstance(thing, nn.Module):
        return type(thing).__name__, tuple(shape_of(p) for p in thing.parameters())
    if isinstance(thing, dict):
        return tuple((key, shape_of(value)) for key, value in thing.items())
    if isinstance(thing, list | tuple):
        return tuple(shape_of(value) for value in thing)
    if is_rank(thing):
        return thing.rank, thing.world_size
    return thing if isinstance(thing, int | float | str | None) else type(thing).__name__


def values_of(thing: Any) -> Any:
    """What two equal things have in common: ``shape_of``, and the numbers in tensors."""
    numbers = tuple(tuple(t.detach().double().flatten().tolist()) for t in _all_in(thing))
    return shape_of(thing), numbers


def _all_in(thing: Any) -> list[Tensor]:
    of_modules = [t for module in modules_in(thing) for t in module.state_dict().values()]
    return [t for t in (*tensors_in(thing), *of_modules) if isinstance(t, torch.Tensor) and not t.is_complex()]
