"""Something is kept from one call to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.authoring.bench.judging.saboteurs.found import (
    changed,
    modules_in,
    shape_of,
    tensors_in,
    values_of,
)

__all__ = [
    "kept_by_arguments",
    "kept_by_shape",
    "kept_for_the_life_of_the_class",
    "one_buffer_for_all_results",
    "right_at_the_first_call_alone",
]

OF_A_CLASS = ("kept_for_the_life_of_the_class",)


def kept_by_shape(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """The result of the first call with inputs of this shape is given for ever after."""
    kept: dict[Any, Any] = {}

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(call, "__name__", "") == "__init__" or not [*tensors_in(*args), *modules_in(*args)]:
            return call(*args, **kwargs)
        met()
        key = shape_of(args), shape_of(kwargs)
        if key not in kept:
            kept[key] = call(*args, **kwargs)
        return kept[key]

    return spoilt


def kept_by_arguments(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """The very list or tensor of the first call with these arguments is given for ever after."""
    kept: dict[Any, Any] = {}

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(call, "__name__", "") == "__init__":
            return call(*args, **kwargs)
        key = repr((values_of(args), values_of(kwargs)))
        if key not in kept:
            kept[key] = call(*args, **kwargs)
        if isinstance(kept[key], list | dict | Tensor):
            met()
        return kept[key]

    return spoilt


def kept_for_the_life_of_the_class(answer: Any, met: Callable[[], None]) -> Any:
    """A second object of the class gets what the first one of its shape has."""
    kept: dict[Any, Any] = {}

    class Kept(answer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            met()
            key = shape_of(args), shape_of(kwargs)
            if key in kept:
                self.__dict__ = kept[key]  # both are one from now on
            else:
                super().__init__(*args, **kwargs)
                kept[key] = vars(self)

    Kept.__name__ = Kept.__qualname__ = answer.__name__
    return Kept


def one_buffer_for_all_results(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """All results of one shape lie in one buffer, so that a call overwrites the one before."""
    buffers: dict[Any, Tensor] = {}

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {id(tensor) for tensor in tensors_in(*args, *kwargs.values())}
        place = 0

        def into_its_buffer(tensor: Tensor) -> Tensor:
            nonlocal place
            if id(tensor) in given:
                return tensor
            met()
            place += 1
            buffer = buffers.setdefault((place, tuple(tensor.shape), tensor.dtype), tensor.detach().clone())
            buffer.copy_(tensor.detach())
            if not tensor.requires_grad:
                return buffer
            tensor.data = buffer
            return tensor

        return changed(call(*args, **kwargs), into_its_buffer)

    return spoilt


def right_at_the_first_call_alone(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """From the second call on, it does nothing."""
    calls: list[None] = []

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(call, "__name__", "") == "__init__":
            return call(*args, **kwargs)
        met()
        calls.append(None)
        return call(*args, **kwargs) if len(calls) == 1 else None

    return spoilt
